// Package manifests is a folder of Kubernetes manifests as a source of objects: what a cluster's API server is to a
// controller, a folder is to a laptop, a test or a machine without a cluster.
//
//	folder, err := manifests.Read([]string{"deploy/demo"})
//	if err != nil { ... }                                  // the folder itself is not there
//	result := builder.Build(folder.Snapshot())
//	for _, p := range folder.Report(result.Problems) {     // what reading and building found, by file and line
//		fmt.Println(p)
//	}
//	err = folder.Run(ctx, func() { ... build again ... })  // until ctx ends
//
// # What is read
//
// Files named .yaml, .yml and .json, in subfolders too; many documents a file; lists (kind: List, IngressList). Hidden
// files and what editors leave about are passed over. The kinds are Ingress in every version it ever had, IngressClass,
// Service, EndpointSlice, Endpoints, Secret, ConfigMap and Namespace; others are counted. An object without a namespace
// is in "default". Objects come out as an API server would hand them on: converted to the current version, defaults
// filled in, stringData moved into data, Endpoints mirrored into EndpointSlices.
//
// # Mistakes
//
// Reading is strict and goes on. A field that does not exist is a problem, and the object is used without it. An object
// that does not decode is a problem, and the version of it that was last good stays in service; so does everything of a
// file that does not parse, and an Ingress that lacks what its last version had (incomplete.go). A mistake is told once, with its line and with what to write instead.
//
// # Rule of order
//
// Folders in the order given, files by name, objects as they stand. Of an object defined twice the first one counts.
//
// # What it does not do
//
// It does not judge what a cluster may hold as well: whether a host is a host name, whether a Service exists, whether a
// certificate fits is found where tables are built. What an API server would never have taken in a Service and its
// endpoints is found here (values.go). It never writes, and never follows a link out of its folder.
//
// A Folder is for one goroutine: call its methods before Run, or from the function that Run calls; Nudge from anywhere.
package manifests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sallyport/controller"
)

// A Folder is one or more folders of manifests, read as one.
type Folder struct {
	roots   []string
	schemas schemas

	files   map[string]*file // by path as shown
	order   []*file
	pending map[string]look // changed files that are not read yet: somebody may be writing them
	served  map[controller.Ref]*entry
	objects map[controller.Ref]metav1.Object // what the snapshot holds

	snapshot controller.Snapshot
	problems []controller.Problem
	changes  []Change
	others   map[string]int
	nudged   chan struct{} // has room for one: see Nudge
}

// A file is what was last read from one.
type file struct {
	path    string
	info    fs.FileInfo // nil: read again in any case
	sum     [sha256.Size]byte
	content content
	good    []*entry // of the last time it was not broken; nil if never
	err     error    // why it could not be read at the last look
}

// Read reads folders for the first time. An error means that one of them is not there; mistakes in files are Problems.
func Read(folders []string) (*Folder, error) {
	if len(folders) == 0 {
		return nil, errors.New("no folder of manifests named")
	}
	for _, folder := range folders {
		if _, err := os.Stat(folder); err != nil {
			return nil, fmt.Errorf("manifests: %w", err)
		}
	}
	f := &Folder{
		roots:   folders,
		schemas: make(schemas),
		pending: make(map[string]look),
		nudged:  make(chan struct{}, 1),
	}
	f.reload(atOnce)
	return f, nil
}

// Snapshot is all objects of the folder. It is the same one each time, brought up to date by Run.
func (f *Folder) Snapshot() *controller.Snapshot { return &f.snapshot }

// Problems are the mistakes found in reading, by file and line. See Report for those and the ones found in building.
func (f *Folder) Problems() []controller.Problem { return f.problems }

// Others counts the objects of kinds that are not read, by kind.
func (f *Folder) Others() map[string]int { return maps.Clone(f.others) }

// Changes lists what the last reload changed, by file and line: after Read, everything.
func (f *Folder) Changes() []Change { return f.changes }
