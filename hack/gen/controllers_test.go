package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// The page's marks follow from the registry, and each name of the original has one row.
func TestMarkControllers(t *testing.T) {
	aliases := map[string]string{"web-controller": "web", "db-controller": "db", "app-controller": ""}
	registry := []manager.Controller{{Name: "web-controller", Alias: "web"}, {Name: "app-controller", OffByDefault: true}}
	const web, db, app = "| `web-controller` | `web` | on | | Serves. | Nothing is served. |\n",
		"| `db-controller` | `db` | on | [yes](db.md) | Stores. | Nothing is stored. |\n",
		"| `app-controller` | none | off | no | Runs. | Nothing runs. |\n"
	const text = "# Page\n\n**7 of the 9** are here.\n\n| controller | alias |\n|---|---|\n"
	for _, c := range []struct{ name, page, want, wrong string }{
		{name: "marks follow from the registry", page: text + web + db + app,
			want: strings.NewReplacer("**7 of the 9**", "**2 of the 3**", "on | | Serves", "on | [yes](web.md) | Serves", "[yes](db.md)",
				"no", "off | no", "off | yes").Replace(text + web + db + app)},
		{name: "a name is missing", page: text + web + app, wrong: "no row for db-controller"},
		{name: "a name has two rows", page: text + web + db + app + web,
			wrong: "web-controller is unknown to the original, or has two rows"},
		{name: "a name is unknown", page: text + web + db + app + strings.ReplaceAll(web, "web", "foo"),
			wrong: "foo-controller is unknown"},
		{name: "an alias is wrong", page: text + web + strings.Replace(db, "`db`", "none", 1) + app,
			wrong: "db-controller: the alias is none, want `db`"},
		{name: "a cell is empty", page: text + web + strings.Replace(db, "Nothing is stored.", "", 1) + app,
			wrong: "db-controller: a cell is empty"},
		{name: "a cell is missing", page: text + web + strings.Replace(db, "Stores. |", "", 1) + app,
			wrong: "db-controller: the row has 5 cells"},
		{name: "it is off by default", page: text + web + db + strings.Replace(app, "off", "on", 1),
			wrong: "app-controller: it is off by default"},
	} {
		got, err := markControllers([]byte(c.page), registry, aliases, map[string]string{"web-controller": "web.md"})
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.wrong)
			}
		case err != nil || string(got) != c.want:
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

// The page of a controller is the one that names it before its first section, and of two that do, the one that is called after it.
func TestPagesOfControllers(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "# A\n\nIt works with `web-app-controller`.\n", "webapp.md": "# Web\n\n`web-app-controller`\n",
		"both.md": "# Both\n`db` is `db-controller`\n\n## Others\n\n`app`\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := pagesOfControllers(folder,
		[]manager.Controller{{Name: "web-app-controller", Alias: "web-app"}, {Name: "db-controller", Alias: "db"}, {Name: "app"}})
	if err != nil || len(pages) != 2 || pages["web-app-controller"] != "webapp.md" || pages["db-controller"] != "both.md" {
		t.Errorf("%v, %v", pages, err)
	}
}
