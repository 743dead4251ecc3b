package main

import (
	"fmt"
	"os"

	"sallyport/config"
	"sallyport/controller"
	"sallyport/controller/manifests"
	"sallyport/proxy/upstream"
)

// built is what was made of folders of manifests without serving them: what check and routes look at.
type built struct {
	folders  []string
	folder   *manifests.Folder
	result   controller.Result
	pools    *upstream.Pools
	problems []controller.Problem // found in reading and in building, in order
	idle     []string             // what is to be said of each --map that sends nothing anywhere
}

// readManifests reads folders and builds their table. A folder that cannot be read at all is a mistake of usage;
// everything else is a problem.
func readManifests(c config.Config, folders []string) (*built, error) {
	c.Manifests = folders
	folder, err := openFolder(folders)
	if err != nil {
		return nil, err
	}
	b := &built{folders: folders, folder: folder, pools: new(upstream.Pools)}
	options, err := builderOptions(c, int(c.HTTPSPort), b.pools)
	if err != nil {
		return nil, err
	}
	options.ACMENamespace = folderOrders // whoever serves them may order certificates
	b.result = controller.NewBuilder(options).Build(folder.Snapshot())
	b.problems = folder.Report(b.result.Problems)
	b.idle = idleMappings(c.Map, folder.Snapshot(), b.pools)
	return b, nil
}

// warn says what is no problem of an object and still not as somebody will expect.
func warn(w world, messages []string) {
	for _, message := range messages {
		fmt.Fprintln(w.err, "warning: "+message)
	}
}

// openFolder reads folders of manifests for the first time.
func openFolder(folders []string) (*manifests.Folder, error) {
	for _, folder := range folders {
		file, err := os.Open(folder)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		file.Close()
	}
	return manifests.Read(folders)
}
