package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// order is the way the data flows: source object, compile, store, index,
// decide, serve. A package imports only packages that stand before it.
var order = []string{
	"internal/domain/netaddr",
	"internal/domain/lease",
	"internal/domain/fault",
	"internal/domain/arch",
	"internal/domain/boottoken",
	"internal/domain/identity",
	"internal/limit",
	"internal/version",
	"internal/option",
	"internal/logs",
	"internal/logs/logstest",
	"internal/testkit",
	"internal/feed",
	"internal/pipetest",
	"internal/keyfile",
	"internal/egress",
	"internal/audit",
	"internal/image/download",
	"internal/domain/ipxe",
	"internal/domain/grub",
	"internal/domain/report",
	"internal/domain/kickstart", // whose versions the API validates
	"api/v1",
	"api/openapi",
	"internal/domain/rbac",
	"internal/domain/jsonscan",
	"internal/domain/coreos",
	"internal/domain/coreos/streamtest",
	"internal/domain/kinds",
	"internal/domain/ignition",
	"internal/domain/disk",
	"internal/domain/hardware",
	"internal/domain/plan",
	"internal/domain/butane",
	"internal/domain/template",
	"internal/domain/compile",
	"internal/remote",
	"internal/manifest",
	"internal/client",
	"internal/store/question",
	"internal/store/replicas",
	"internal/store/ledger",
	"internal/store/encryption",
	"internal/store/keylog",
	"internal/store/natsd",
	"internal/store/natsd/natstest",
	"internal/budget",
	"internal/store/session",
	"internal/store/batch",
	"internal/store/kvstore",
	"internal/store/kvstore/kvtest",
	"internal/domain/shardmap",
	"internal/domain/match",
	"internal/domain/model",
	"internal/store/snapshot",
	"internal/store/snapshot/labtest",
	"internal/store/objects",
	"internal/store/backup",
	"internal/store/policy",
	"internal/store/secrets",
	"internal/store/tokens",
	"internal/store/streams",
	"internal/serve/peer",
	"internal/serve/listener",
	"internal/domain/iso",
	"internal/domain/decide",
	"internal/domain/explain",
	"internal/domain/wording",
	"internal/domain/impact",
	"internal/domain/impact/impacttest",
	"internal/store/rendering",
	"internal/serve/sources",
	"internal/store/boots",
	"internal/store/boots/bootstest",
	"internal/store/leases",
	"internal/store/leading",
	"internal/store/members",
	"internal/controller",
	"internal/controller/config",
	"internal/controller/stream",
	"internal/controller/events",
	"internal/controller/template",
	"internal/controller/unknown",
	"internal/controller/host",
	"internal/serve/iscsi",
	"internal/loader",
	"internal/serve/tftp",
	"internal/serve/pxe",
	"internal/image",
	"internal/image/imagetest",
	"internal/controller/image",
	"internal/controller/backups",
	"internal/offline",
	"internal/credentials",
	"internal/credentials/certtest",
	"internal/backend",
	"internal/serve/oidc/oidctest",
	"internal/serve/oidc",
	"internal/serve/api",
	"internal/serve/machine",
	"internal/serve/portal",
	"internal/status",
	"internal/serve/session",
	"internal/serve/console/live",
	"internal/serve/console",
	"internal/app",
	"internal/cli",
	"cmd/glowplug",
}

// faces serve clients; they never import each other.
var faces = []string{"internal/serve/api", "internal/serve/machine", "internal/serve/iscsi"}

// impure is what the packages of internal/domain, which know no clock, network, disk
// or process, do not import.
var impure = map[string]string{
	"os":       "a pure package reads no file and no environment",
	"net":      "a pure package opens no connection (net/netip is fine)",
	"net/http": "a pure package knows no HTTP",
	"log":      "a pure package returns what it has to say",
	"log/slog": "a pure package returns what it has to say",
}

// kubernetes lists the packages that may know the Kubernetes libraries beyond
// the metadata types: the rest of the program must not depend on them.
var kubernetes = []string{
	"api/v1", "api/openapi", "internal/audit", "internal/domain/rbac", "internal/store/encryption",
	"internal/store/kvstore", "internal/domain/kinds", "internal/domain/wording", "internal/store/policy", "internal/store/objects",
	"internal/store/boots", "internal/store/leases", "internal/store/leading", "internal/store/members", "internal/store/secrets", "internal/store/tokens", "internal/client", "internal/controller",
	"internal/controller/config", "internal/controller/events", "internal/controller/host",
	"internal/controller/image", "internal/controller/stream", "internal/controller/template",
	"internal/controller/unknown", "internal/image", "internal/serve/api", "internal/serve/console", "internal/serve/oidc",
	"internal/backend", "internal/offline", "internal/app", "internal/cli",
}

// single packages may be imported in one place only, and by what is below it for
// tests, so that they can be exchanged.
var single = map[string]string{
	"github.com/coreos/butane":        "internal/domain/butane",
	"github.com/coreos/ignition":      "internal/domain/ignition",
	"github.com/go-task/slim-sprig":   "internal/domain/template",
	"github.com/nats-io/nats-server":  "internal/store/natsd",
	"github.com/vishvananda/netlink":  "internal/serve/peer",
	"github.com/ProtonMail/go-crypto": "internal/image/download",
	"github.com/aws/aws-sdk-go-v2":    "internal/remote",
	"github.com/pin/tftp":             "internal/remote",
}

type pkg struct {
	path    string
	doc     bool
	imports map[string]string // import -> file
	tests   map[string]string // import of a test -> file
	now     []string          // files that call time.Now
	starts  []string          // files that start a goroutine
}

func load(t *testing.T) map[string]*pkg {
	t.Helper()
	root := filepath.Join("..", "..")
	pkgs := map[string]*pkg{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && rel != "." || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		inTree := strings.HasPrefix(dir, "internal/") || strings.HasPrefix(dir, "api/") || strings.HasPrefix(dir, "cmd/")
		if !inTree || !strings.HasSuffix(rel, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		p := pkgs[dir]
		if p == nil {
			p = &pkg{path: dir, imports: map[string]string{}, tests: map[string]string{}}
			pkgs[dir] = p
		}
		isTest := strings.HasSuffix(rel, "_test.go")
		p.doc = p.doc || file.Doc != nil && !isTest || strings.HasPrefix(filepath.Base(rel), "zz_generated")
		for _, imp := range file.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			if isTest {
				p.tests[name] = rel
			} else {
				p.imports[name] = rel
			}
		}
		if isTest {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if startsGoroutine(n) {
				p.starts = append(p.starts, rel)
			}
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since") {
					p.now = append(p.now, rel)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// startsGoroutine reports whether a node is a go statement, or a call of the method Go
// of a sync.WaitGroup or an errgroup.Group.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		return ok && sel.Sel.Name == "Go" && len(n.Args) == 1
	}
	return false
}

func TestImportOrder(t *testing.T) {
	for dir, p := range load(t) {
		here := slices.Index(order, dir)
		if here < 0 && dir != "internal/architecture" {
			t.Errorf("%s: not in the list of packages: say where in the flow it stands", dir)
			continue
		}
		for imp, file := range p.imports {
			local, ok := strings.CutPrefix(imp, "glowplug/")
			if !ok {
				continue
			}
			if there := slices.Index(order, local); there < 0 || there >= here {
				t.Errorf("%s imports %s, which does not stand before %s", file, local, dir)
			}
			if strings.HasPrefix(dir, "internal/serve/") && strings.HasPrefix(local, "internal/controller") {
				t.Errorf("%s imports %s: who serves clients knows no controller", file, local)
			}
			if slices.Contains(faces, dir) && slices.Contains(faces, local) {
				t.Errorf("%s imports %s: faces never import each other", file, local)
			}
		}
	}
}

func TestPurePackages(t *testing.T) {
	pkgs := load(t)
	for dir, p := range pkgs {
		if !strings.HasPrefix(dir, "internal/domain/") {
			continue
		}
		for imp, file := range p.imports {
			if reason, bad := impure[imp]; bad {
				t.Errorf("%s imports %s: %s", file, imp, reason)
			}
			local, ok := strings.CutPrefix(imp, "glowplug/internal/")
			if ok && !strings.HasPrefix(local, "domain/") {
				t.Errorf("%s imports %s: a pure package knows pure packages alone", file, imp)
			}
		}
		for _, file := range p.now {
			t.Errorf("%s reads the clock: take the time as an argument", file)
		}
	}
}

func TestRestrictedImports(t *testing.T) {
	for dir, p := range load(t) {
		for imp, file := range p.imports {
			for prefix, home := range single {
				if strings.HasPrefix(imp, prefix) && dir != home && !strings.HasPrefix(dir, home+"/") {
					t.Errorf("%s imports %s: only %s does", file, imp, home)
				}
			}
			if strings.HasPrefix(imp, "k8s.io/") && !strings.HasPrefix(imp, "k8s.io/apimachinery/pkg/apis/meta") &&
				!slices.Contains(kubernetes, dir) {
				t.Errorf("%s imports %s: only %v know the Kubernetes libraries", file, imp, kubernetes)
			}
		}
	}
}

func TestPackageDocs(t *testing.T) {
	for dir, p := range load(t) {
		if !p.doc {
			t.Errorf("%s: no package comment", dir)
		}
	}
}
