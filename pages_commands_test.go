package tidy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	nested      = regexp.MustCompile(`\$\(([^()]*)\)`)
	separator   = regexp.MustCompile(`\s*(?:&&|\|\||[|;&]|>|<)\s*`)
	assignment  = regexp.MustCompile(`^[A-Z_]+=`)
	words       = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
	inQuotes    = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	remark      = regexp.MustCompile(`(^|\s)#.*`)
	startsLower = regexp.MustCompile(`^[a-z]`)
	target      = regexp.MustCompile(`(?m)^([a-z][a-z-]*(?: [a-z-]+)*):`)
)

// commands returns the words of each command in a line of a shell, also of those in $(...).
func commands(line string) (all [][]string) {
	line = remark.ReplaceAllString(strings.TrimPrefix(line, "$ "), "")
	for nested.MatchString(line) {
		for _, match := range nested.FindAllStringSubmatch(line, -1) {
			all = append(all, commands(match[1])...)
		}
		line = nested.ReplaceAllString(line, "_")
	}
	quoted := []string{}
	line = inQuotes.ReplaceAllStringFunc(line, func(s string) string {
		quoted = append(quoted, s)
		return "\x00" // no separator is looked for in it
	})
	for _, each := range separator.Split(line, -1) {
		for strings.Contains(each, "\x00") {
			each = strings.Replace(each, "\x00", quoted[0], 1)
			quoted = quoted[1:]
		}
		command := words.FindAllString(each, -1)
		for len(command) > 0 && assignment.MatchString(command[0]) {
			command = command[1:]
		}
		if len(command) > 0 {
			all = append(all, command)
		}
	}
	return all
}

// wrongCommands finds commands of this project that do not exist, and arguments that they do not have.
func wrongCommands(r *project, p page) (found []mistake) {
	for _, s := range p.code() {
		for _, c := range commands(s.text) {
			for _, wrong := range r.wrongCommand(c, s.block) {
				found = append(found, mistakenf(s.line, "%s: %s", strings.Join(c, " "), wrong))
			}
		}
	}
	return found
}

// wrongCommand says what is wrong with a command. A word in backquotes is one only if it has arguments.
func (r *project) wrongCommand(c []string, block bool) []string {
	if len(c) < 2 && !block {
		return nil
	}
	switch c[0] {
	case "controller-manager", "bin/controller-manager":
		return r.wrongManager(c[1:])
	case "make":
		return r.wrongMake(c[1:])
	case "go":
		return r.wrongGo(c[1:])
	case "localcluster", "bin/localcluster":
		return r.wrongLocalcluster(c[1:])
	}
	return nil
}

// wrongManager looks at the arguments of the manager: the first word that is no value of a flag is a subcommand.
func (r *project) wrongManager(arguments []string) (wrong []string) {
	command, value := r.manager, false
	for _, word := range arguments {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, assigned := strings.Cut(name, "=")
		switch {
		case value:
			value = false
		case isFlag && name != "help":
			f := command.Flags().Lookup(name)
			if f == nil {
				return append(wrong, "no flag --"+name)
			}
			value = !assigned && f.NoOptDefVal == ""
		case command != r.manager || !startsLower.MatchString(word) || word == "completion" || word == "help": // cobra adds the last two
		default:
			sub, _, err := command.Find([]string{word})
			if err != nil || sub == command {
				return append(wrong, "no command "+word)
			}
			command = sub
		}
	}
	return wrong
}

func (r *project) wrongMake(arguments []string) (wrong []string) {
	for _, word := range arguments {
		name, _, variable := strings.Cut(word, "=")
		switch {
		case variable && !r.variables[name]:
			wrong = append(wrong, "no variable "+name)
		case !variable && !strings.HasPrefix(word, "-") && !r.targets[word]:
			wrong = append(wrong, "no target "+word)
		}
	}
	return wrong
}

// flagsOfGo are those of go build, run, test and tool that pages use.
var flagsOfGo = strings.Fields("C args bench benchmem benchtime count cover cpuprofile diff fuzz fuzztime o overlay race run " +
	"short skip tags timeout top cum trimpath v vet w")

func (r *project) wrongGo(arguments []string) (wrong []string) {
	folder := "."
	if len(arguments) > 1 && arguments[0] == "-C" {
		folder, arguments = arguments[1], arguments[2:]
		if !r.has(folder) {
			wrong = append(wrong, "no folder "+folder)
		}
	}
	if len(arguments) == 0 || arguments[0] != "run" && arguments[0] != "test" {
		return wrong
	}
	tests := arguments[0] == "test"
	in, pattern := "", ""
	for i, word := range arguments[1:] {
		name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case strings.HasPrefix(word, "-"):
			if !slices.Contains(flagsOfGo, name) && !r.flags[name] {
				wrong = append(wrong, "no flag "+word)
			}
			if slices.Contains([]string{"run", "bench", "fuzz", "skip"}, name) && tests {
				if value == "" && i+2 < len(arguments) {
					value = arguments[i+2]
				}
				pattern = strings.Trim(value, `'"`)
				wrong = append(wrong, r.wrongPattern(pattern, in, folder)...)
			}
		case in == "" && (word == "." || strings.HasPrefix(word, "./")):
			in = path.Join(folder, word)
			if !r.has(in) {
				wrong = append(wrong, "no folder "+in)
			} else if tests {
				wrong = append(wrong, r.wrongPattern(".", in, folder)...)
			}
			wrong = append(wrong, r.wrongPattern(pattern, in, folder)...)
		case folder == "hack/localcluster" && in == folder && !tests:
			return append(wrong, r.wrongLocalcluster(arguments[i+1:])...)
		}
	}
	return wrong
}

// wrongPattern says that no test in a folder has a name for -run. Of 'TestA/b' the first part counts.
func (r *project) wrongPattern(pattern, in, folder string) []string {
	pattern, _, _ = strings.Cut(pattern, "/")
	compiled, err := regexp.Compile(pattern)
	if pattern == "" || pattern == "^$" || pattern == "NAME" || err != nil {
		return nil
	}
	below := in == "" || in == "." || strings.HasSuffix(in, "...")
	in = strings.TrimSuffix(strings.TrimSuffix(in, "..."), "/")
	if in == "" || in == "." {
		in = folder
	}
	if !r.hasTest(in, compiled, below) {
		return []string{"no test in " + in + " matches " + strconv.Quote(pattern)}
	}
	return nil
}

func (r *project) wrongLocalcluster(arguments []string) []string {
	if len(arguments) > 0 && !strings.HasPrefix(arguments[0], "-") {
		if arguments[0] != "help" && !strings.Contains(r.text("hack/localcluster/main.go"), fmt.Sprintf("\t{%q, \"", arguments[0])) {
			return []string{"no command " + arguments[0]}
		}
	}
	for _, word := range arguments {
		if name, ok := strings.CutPrefix(word, "-"); ok {
			if name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "="); !r.flags[name] {
				return []string{"no flag " + word}
			}
		}
	}
	return nil
}

var flagInText = regexp.MustCompile(`^--([a-z][\w-]*)`)

// flagsOfOthers are flags of kube-apiserver and kubectl that pages name by themselves.
var flagsOfOthers = []string{"cascade", "etcd-servers-overrides", "request-timeout", "service-account-key-file"}

// wrongFlags finds flags that neither the manager nor a program of the project has, where a page names them by themselves.
func wrongFlags(r *project, p page) (found []mistake) {
	for _, s := range p.code() {
		match := flagInText.FindStringSubmatch(s.text)
		if match == nil || s.block {
			continue
		}
		if strings.HasSuffix(match[1], "-") {
			continue // the beginning of several
		}
		if r.manager.Flags().Lookup(match[1]) == nil && !r.flags[match[1]] && !slices.Contains(flagsOfOthers, match[1]) {
			found = append(found, mistakenf(s.line, "no program has the flag %s", match[0]))
		}
	}
	return found
}

func TestWrongCommands(t *testing.T) {
	testCheck(t, wrongCommands, []pageCase{
		{"all exist", page{text: "`controller-manager handover --controllers='*'`, `make run EXAMPLES=all`, `controller-manager version`\n\n" +
			"    MANAGER_BINARY=$(go -C hack/localcluster run . path kubectl) go test ./test/chaos -run '^TestSoak$/^a$' -soak=1m " +
			"-timeout=0\n" +
			"    go -C test/bench run . -only writes -original none # a remark: no more\n" +
			"    make | grep x && go test -run '^$' -bench . ./pkg/...\n"}, nil},
		{"no subcommand", page{text: "`controller-manager explain node NAME`"}, []string{"no command explain"}},
		{"no flag", page{text: "```\nbin/controller-manager --kubeconfig x --nosuch=3\n```"}, []string{"no flag --nosuch"}},
		{"no flag of the subcommand", page{text: "`controller-manager handover --kubeconfig=x`"}, []string{"no flag --kubeconfig"}},
		{"no target", page{text: "`make nosuch`, `make run NOSUCH=1`"}, []string{"no target nosuch", "no variable NOSUCH"}},
		{"no package", page{text: "`go test ./test/oracle/record`"}, []string{"no test in test/oracle/record"}},
		{"no test of that name", page{text: "`go test ./test/chaos -run TestNosuch`; `go test -run=TestPages ./pkg/...`"},
			[]string{"no test in test/chaos matches \"TestNosuch\"", "no test in pkg matches \"TestPages\""}},
		{"no flag of a test", page{text: "`go test ./test/chaos -nosuch=1`"}, []string{"no flag -nosuch=1"}},
		{"no subcommand of the local cluster", page{text: "    X=$(go -C hack/localcluster run . nosuch)\n"},
			[]string{"no command nosuch"}},
		{"no flag of the local cluster", page{text: "`go -C hack/localcluster run . build --with-nosuch`"},
			[]string{"no flag --with-nosuch"}},
	})
}

func TestWrongFlags(t *testing.T) {
	testCheck(t, wrongFlags, []pageCase{
		{"all exist", page{text: "`--controllers=*,-job`, `--brake-share`, `--with-upstream`"}, nil},
		{"a flag is gone", page{text: "`--nosuch-flag=1`"}, []string{"--nosuch-flag"}},
	})
}
