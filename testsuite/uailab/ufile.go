package uailab

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bucket is the host of the stand-in's bucket of UFile, whose files are in
// Service.Objects.
const (
	Bucket     = "standin.cn-bj.ufileos.com"
	bucketName = "standin"
)

// serveFiles is UFile for one bucket. It verifies every request's signature by itself:
// that of the header, or of an address that is good for a while.
func (s *Service) serveFiles(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	action := "UFile" + r.Method
	if r.URL.Query().Has("list") {
		action = "UFileList"
	}
	s.Meet(action, w, func(w http.ResponseWriter) {
		if !s.signedFile(r, key) {
			failFile(w, http.StatusForbidden, "signature error")
			return
		}
		s.file(w, r, action, key)
	})
}

func failFile(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"RetCode": -148643, "ErrMsg": words})
}

func (s *Service) signedFile(r *http.Request, key string) bool {
	s.mutex.Lock()
	secret := s.secret
	s.mutex.Unlock()
	query := r.URL.Query()
	date, given := r.Header.Get("Date"), strings.TrimPrefix(r.Header.Get("Authorization"), "UCloud "+PublicKey+":")
	if expires := query.Get("Expires"); expires != "" {
		until, _ := strconv.ParseInt(expires, 10, 64)
		if query.Get("UCloudPublicKey") != PublicKey || time.Now().Unix() > until {
			return false
		}
		date, given = expires, query.Get("Signature")
	}
	mac := hmac.New(sha1.New, []byte(secret))
	io.WriteString(mac, strings.Join([]string{r.Method, r.Header.Get("Content-MD5"), r.Header.Get("Content-Type"), date, "/" + bucketName + "/" + key}, "\n"))
	return hmac.Equal([]byte(given), []byte(base64.StdEncoding.EncodeToString(mac.Sum(nil))))
}

func (s *Service) file(w http.ResponseWriter, r *http.Request, action, key string) {
	path := filepath.Join(s.Objects, filepath.FromSlash(key))
	switch action {
	case "UFileList":
		s.listFiles(w, r)
	case "UFilePUT":
		if err := receive(path, r.Body); err != nil {
			failFile(w, http.StatusInternalServerError, err.Error())
		}
	case "UFileGET":
		http.ServeFile(w, r, path)
	case "UFileDELETE":
		if os.Remove(path) != nil {
			failFile(w, http.StatusNotFound, "file not exist")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		failFile(w, http.StatusMethodNotAllowed, action)
	}
}

func receive(path string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// listFiles brings pages of at most PageOfFiles objects, in the order of their names.
func (s *Service) listFiles(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	found, marker := []map[string]any{}, ""
	for _, one := range s.files() {
		key, size := one.key, one.size
		if !strings.HasPrefix(key, query.Get("prefix")) || query.Get("marker") != "" && key <= query.Get("marker") {
			continue
		}
		if len(found) == min(limit, PageOfFiles) {
			marker = found[len(found)-1]["FileName"].(string)
			break
		}
		found = append(found, map[string]any{"BucketName": bucketName, "FileName": key, "Size": size})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"BucketName": bucketName, "DataSet": found, "NextMarker": marker})
}

// PageOfFiles is the most that one list of a bucket brings.
const PageOfFiles = 5

type file struct {
	key  string
	size int64
}

func (s *Service) files() (all []file) {
	_ = filepath.WalkDir(s.Objects, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".new-") {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			key, _ := filepath.Rel(s.Objects, path)
			all = append(all, file{filepath.ToSlash(key), info.Size()})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.key, b.key) })
	return all
}

// Files are the names of all objects in the bucket.
func (s *Service) Files() (names []string) {
	for _, one := range s.files() {
		names = append(names, one.key)
	}
	return names
}
