package acme

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folder is a Store in a folder, which is made when it is needed, readable for nobody else. A certificate is one file of PEM
// with its key, NAME.pem; what else is kept is NAME.json. No two processes may use it at once.
func Folder(path string) FolderStore { return FolderStore{path} }

// A FolderStore is what Folder returns.
type FolderStore struct{ path string }

const directoryBlock = "ACME DIRECTORY" // whose bytes are the URL

// Load is for [Store].
func (f FolderStore) Load(_ context.Context, name string) (map[string][]byte, error) {
	if strings.HasPrefix(name, certificatePrefix) {
		text, err := f.read(name + ".pem")
		if err != nil {
			return nil, err
		}
		return splitPEM(text), nil
	}
	text, err := f.read(name + ".json")
	if err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(f.path, name+".json"), err)
	}
	data := make(map[string][]byte, len(texts))
	for key, value := range texts {
		data[key] = []byte(value)
	}
	return data, nil
}

func (f FolderStore) read(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(f.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotKept
	}
	return text, err
}

// splitPEM takes a certificate apart as it was saved.
func splitPEM(text []byte) map[string][]byte {
	data := make(map[string][]byte)
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return data
		}
		switch block.Type {
		case directoryBlock:
			data[DirectoryKey] = block.Bytes
		case "CERTIFICATE":
			data[CertificateKey] = append(data[CertificateKey], pem.EncodeToMemory(block)...)
		default:
			data[PrivateKeyKey] = append(data[PrivateKeyKey], pem.EncodeToMemory(block)...)
		}
	}
}

// Save is for [Store].
func (f FolderStore) Save(_ context.Context, name string, data map[string][]byte) error {
	if strings.HasPrefix(name, certificatePrefix) {
		directory := pem.EncodeToMemory(&pem.Block{Type: directoryBlock, Bytes: data[DirectoryKey]})
		return f.write(name+".pem", bytes.Join([][]byte{data[CertificateKey], data[PrivateKeyKey], directory}, nil))
	}
	texts := make(map[string]string, len(data))
	for key, value := range data {
		texts[key] = string(value)
	}
	text, err := json.MarshalIndent(texts, "", "  ")
	if err != nil {
		return err
	}
	return f.write(name+".json", text)
}

// write replaces a file as a whole.
func (f FolderStore) write(name string, text []byte) error {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(f.path, "."+name+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(f.path, name))
}

// Clean is for [Store].
func (f FolderStore) Clean(_ context.Context, useless func(name string, data map[string][]byte) bool) error {
	all, err := f.Certificates()
	for name, data := range all {
		if useless(name, data) {
			err = errors.Join(err, os.Remove(filepath.Join(f.path, name+".pem")))
		}
	}
	return err
}

// Certificates are all that are kept, by their names.
func (f FolderStore) Certificates() (map[string]map[string][]byte, error) {
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := make(map[string]map[string][]byte)
	for _, entry := range entries {
		name, is := strings.CutSuffix(entry.Name(), ".pem")
		if !is || !strings.HasPrefix(name, certificatePrefix) {
			continue
		}
		data, failure := f.Load(context.Background(), name)
		if failure != nil {
			err = errors.Join(err, failure)
			continue
		}
		all[name] = data
	}
	return all, err
}
