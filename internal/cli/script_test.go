package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run this test binary as glowplug.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"glowplug": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"mkiso":    makeISO,
	})
}

// TestScripts runs the program as a user does: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds:                natsCommands(t),
		// Each script's files are served over HTTP, too.
		Setup: func(env *testscript.Env) error {
			files := httptest.NewServer(http.FileServer(http.Dir(env.WorkDir)))
			env.Defer(files.Close)
			env.Setenv("FILES", files.URL)
			return nil
		},
	})
}
