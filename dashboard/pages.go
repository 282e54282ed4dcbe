package dashboard

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// The pages are built by make into a directory that is in no commit; what stands in for
// them there says so.
//
//go:embed all:pages
var embedded embed.FS

const (
	builtPages  = "pages/built"
	unbuiltPage = "pages/unbuilt.html"
	entry       = "index.html"
)

// pages serves the files that were built, and the entry page under every address that is
// none of them: which page that is, it reads from the address by itself.
func pages() http.Handler {
	built, err := fs.Sub(embedded, builtPages)
	if err == nil {
		_, err = fs.Stat(built, entry)
	}
	if err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, embedded, unbuiltPage) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { servePage(built, w, r) })
}

// assets is where files lie whose names have a hash of their content.
const assets = "assets/"

func servePage(built fs.FS, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "pages are only read", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	info, err := fs.Stat(built, name)
	switch {
	case err == nil && !info.IsDir() && strings.HasPrefix(name, assets):
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	case err == nil && !info.IsDir() && name != entry:
		w.Header().Set("Cache-Control", "no-cache")
	case strings.HasPrefix(name, assets):
		http.NotFound(w, r)
		return
	default:
		w.Header().Set("Cache-Control", "no-cache")
		content, _ := fs.ReadFile(built, entry) // it was there when the handler was made
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(content)
		return
	}
	http.ServeFileFS(w, r, built, name)
}
