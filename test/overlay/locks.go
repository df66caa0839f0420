package overlay

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	modulePath   = "github.com/standalone-kcm/controller-manager"
	lockPackage  = "test/lockorder"
	sitesHead    = "package lockorder\n\n"
	sitesPattern = "type S%[1]d struct{}\n\nfunc (S%[1]d) Name() string { return %[2]q }\n\n"
)

// CheckLocks replaces the locks of the product's packages by those of test/lockorder, in files that are edited already, too. The module
// is the folder of the main module.
func (f Files) CheckLocks(module string) error {
	module, err := filepath.Abs(module)
	if err != nil {
		return err
	}
	var sites strings.Builder
	sites.WriteString(sitesHead)
	n := 0
	for _, tree := range []string{"internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(module, tree), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, edited := f[path]
			if !edited {
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text = string(content)
			}
			folder, err := filepath.Rel(module, filepath.Dir(path))
			if err != nil {
				return err
			}
			replaced, names, err := replaceLocks(path, text, n)
			if err != nil || len(names) == 0 {
				return err
			}
			f[path] = replaced
			for _, name := range names {
				fmt.Fprintf(&sites, sitesPattern, n, filepath.ToSlash(folder)+"."+name)
				n++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("no lock is declared below %s", module)
	}
	f[filepath.Join(module, lockPackage, "sites.go")] = sites.String()
	return nil
}

// replaceLocks replaces the locks that a file declares, of which the first has a number, and returns how they are called: by the type
// or function and the name of the field or variable. Lines stay where they are.
func replaceLocks(path, text string, first int) (replaced string, names []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	type place struct {
		from, to int
		kind     string
	}
	var places []place
	for _, declaration := range file.Decls {
		within, field := "", ""
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				within = n.Name.Name
			case *ast.TypeSpec:
				within = n.Name.Name
			case *ast.Field:
				if field = "it"; len(n.Names) > 0 {
					field = n.Names[0].Name
				}
			case *ast.ValueSpec:
				field = n.Names[0].Name
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "sync" && (n.Sel.Name == "Mutex" || n.Sel.Name == "RWMutex") {
					places = append(places, place{files.Position(n.Pos()).Offset, files.Position(n.End()).Offset, n.Sel.Name})
					names = append(names, strings.TrimPrefix(within+"."+field, "."))
				}
			}
			return true
		})
	}
	if len(places) == 0 {
		return text, nil, nil
	}
	for i, p := range slices.Backward(places) {
		text = text[:p.from] + fmt.Sprintf("lockorder.%s[lockorder.S%d]", p.kind, first+i) + text[p.to:]
	}
	clause := files.Position(file.Name.End()).Offset
	text = text[:clause] + fmt.Sprintf("; import %q", modulePath+"/"+lockPackage) + text[clause:]
	return text + "\nvar _ sync.Locker // whether or not the file uses the package for something else\n", names, nil
}
