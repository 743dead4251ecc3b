package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sallyport/config"
)

func newRun(w world) *cobra.Command {
	c := config.Default()
	command := &cobra.Command{
		Use:   "run",
		Short: "Serve the Ingresses of a cluster or of a folder of manifests",
		Long: "Run serves until SIGTERM. In a pod it serves the pod's cluster; elsewhere it serves the folder or file that\n" +
			"--manifests names, or the cluster that --kubeconfig names. A cluster is never touched without being named.\n\n" +
			"Every flag can be given as an environment variable too: --http-port is SALLYPORT_HTTP_PORT.",
		Example: "  sallyport run --manifests ./manifests\n" +
			"  sallyport run --manifests ./manifests --map web=localhost:3000\n" +
			"  sallyport run --kubeconfig ~/.kube/config --watch-namespace staging",
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return run(command, w, c) },
	}
	addRunFlags(command.Flags(), &c)
	return command
}

func addRunFlags(flags *pflag.FlagSet, c *config.Config) {
	c.AddSources(flags)
	c.AddMap(flags)
	c.AddListeners(flags)
	c.AddClasses(flags)
	c.AddServices(flags)
	c.AddNearness(flags)
	c.AddACME(flags)
	c.AddReports(flags)
	c.AddProcess(flags)
}

func run(command *cobra.Command, w world, c config.Config) error {
	_, inPod := w.lookup("KUBERNETES_SERVICE_HOST")
	if err := checkSource(c, inPod); err != nil {
		return usageError{err}
	}
	log := newLogger(w.err, c)
	for _, message := range strangers(w, command) {
		log.Warn(message)
	}
	listeners, err := listen(c)
	if err != nil {
		return err
	}
	defer listeners.close()
	if c.NodeName == "" {
		c.NodeName, _ = w.lookup("NODE_NAME")
	}
	source, err := openSource(w, c, log)
	if err != nil {
		return err
	}
	s, err := newServer(w, c, listeners, log)
	if err != nil {
		return err
	}
	if len(c.Manifests) > 0 {
		s.useLocalCA(openLocalCA(w, c, log))
	}
	orders, err := newOrderer(w, c, source, s.metrics, log)
	if err != nil {
		return err
	}
	if orders != nil {
		s.order(orders)
	}
	if from, ok := source.(clusterSource); ok {
		if s.feedback, err = newFeedback(w, c, from, orders, s.metrics, s.shareTickets, log); err != nil {
			return err
		}
	}
	ctx, stop := untilSignal(command.Context(), w)
	defer stop()
	return s.serve(ctx, source)
}

// checkSource refuses flags that name no source, or two, or that mean nothing for the one they name.
func checkSource(c config.Config, inPod bool) error {
	folder, cluster := len(c.Manifests) > 0, c.Kubeconfig != "" || inPod
	switch {
	case folder && c.Kubeconfig != "":
		return errors.New("--manifests and --kubeconfig exclude each other: a folder is served, or a cluster")
	case !folder && !cluster:
		return errors.New("nothing to serve: this is not a pod of a cluster, and neither --manifests DIR nor --kubeconfig FILE is given")
	case !folder && len(c.Map) > 0:
		return fmt.Errorf("--map %s: only Services of a folder can be mapped, give --manifests", c.Map[0])
	case folder && len(c.WatchNamespaces) > 0:
		return errors.New("--watch-namespace chooses among a cluster's namespaces; of --manifests everything is served")
	case folder && c.WatchNamespaceSelector != "":
		return errors.New("--watch-namespace-selector chooses among a cluster's namespaces; of --manifests everything is served")
	case folder && (c.PublishService != (config.Name{}) || len(c.PublishStatusAddress) > 0):
		return errors.New("--publish-service and --publish-status-address write to a cluster; of --manifests nothing is written")
	case len(c.WatchNamespaces) > 0 && c.WatchNamespaceSelector != "":
		return errors.New("--watch-namespace and --watch-namespace-selector exclude each other")
	}
	return nil
}
