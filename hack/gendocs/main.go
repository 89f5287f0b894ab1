// Command gendocs writes docs/reference: the commands from the program's own
// flags, the API from the comments of the types in api/v1, the metrics from a server's
// registry.
package main

import (
	"log"
	"os"
	"path/filepath"
)

func main() {
	dir := filepath.Join("docs", "reference")
	api, err := apiReference(filepath.Join("api", "v1"))
	if err != nil {
		log.Fatal(err)
	}
	metrics, err := metricReference()
	if err != nil {
		log.Fatal(err)
	}
	pages := map[string]string{"commands.md": commandReference(), "api.md": api, "metrics.md": metrics}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
