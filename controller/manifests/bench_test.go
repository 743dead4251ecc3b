package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// many writes a folder of n Ingresses of five paths each, a hundred a file.
func many(tb testing.TB, n int) string {
	dir := tb.TempDir()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: app-%d\nspec:\n  rules:\n"+
			"  - host: app-%d.example.com\n    http:\n      paths:\n", i, i)
		for j := range 5 {
			fmt.Fprintf(&b, "      - path: /%d\n        pathType: Prefix\n        backend:\n          service:\n            name: app\n"+
				"            port:\n              number: 80\n", j)
		}
		if i%100 == 99 || i == n-1 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.yaml", i)), []byte(b.String()), 0o644); err != nil {
				tb.Fatal(err)
			}
			b.Reset()
		}
	}
	return dir
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		dir := many(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if f, err := Read([]string{dir}); err != nil || len(f.served) != n {
					b.Fatal(err, len(f.served))
				}
			}
		})
	}
}

// BenchmarkReloadOneFile is the cost of a save among 10,000 Ingresses: one file of a hundred is read.
func BenchmarkReloadOneFile(b *testing.B) {
	dir := many(b, 10_000)
	f, err := Read([]string{dir})
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "05099.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		changed := strings.Replace(string(text), "app-5050.example.com", fmt.Sprintf("app-%d.example.org", i), 1)
		if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
			b.Fatal(err)
		}
		if f.reload(atOnce); len(f.changes) != 1 {
			b.Fatalf("%d changes, want 1", len(f.changes))
		}
	}
}
