package e2e_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"sallyport/controller"
	"sallyport/controller/cluster"
	"sallyport/controller/feedback"
	"sallyport/controller/keeper"
	"sallyport/e2e"
)

// render is `kubectl kustomize folder`, each object decoded strictly into its API type.
func render(t *testing.T, folder string) []runtime.Object {
	t.Helper()
	command := exec.Command(e2e.Tool("kustomize"), "build", folder)
	text, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("kustomize build %s: %s", folder, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// only returns the one object of a type.
func only[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %v, want 1", len(found), reflect.TypeFor[T]())
	}
	return found[0]
}

func TestDeployedPodIsRestricted(t *testing.T) {
	objects := render(t, "../deploy")
	template := only[*appsv1.Deployment](t, objects).Spec.Template
	pod := template.Spec
	for _, violation := range restricted(&pod, template.Annotations) {
		t.Error(violation)
	}
	container := pod.Containers[0]
	if r := container.SecurityContext.ReadOnlyRootFilesystem; r == nil || !*r {
		t.Error("the root file system can be written")
	}
	for _, p := range container.Ports {
		if p.ContainerPort < 1024 {
			t.Errorf("port %s is %d: below 1024 it needs a capability", p.Name, p.ContainerPort)
		}
	}
	if labels := only[*corev1.Namespace](t, objects).Labels; labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace does not enforce the restricted standard: %v", labels)
	}
}

// TestRestrictedStandardIsChecked breaks one control at a time: each must be found.
func TestRestrictedStandardIsChecked(t *testing.T) {
	deployed := only[*appsv1.Deployment](t, render(t, "../deploy")).Spec.Template.Spec
	if got := restricted(&deployed, map[string]string{"container.apparmor.security.beta.kubernetes.io/sallyport": "unconfined"}); len(got) != 1 {
		t.Errorf("annotation: violations are %q, want one", got)
	}
	yes, no, root := true, false, int64(0)
	procMount := corev1.UnmaskedProcMount
	for name, breakIt := range map[string]func(*corev1.PodSpec){
		"hostNetwork": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"hostPID":     func(p *corev1.PodSpec) { p.HostPID = true },
		"hostIPC":     func(p *corev1.PodSpec) { p.HostIPC = true },
		"hostProcess": func(p *corev1.PodSpec) {
			p.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: &yes}
		},
		"privileged": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = &yes },
		"capability": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
		},
		"not all dropped": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Drop = []corev1.Capability{"KILL"}
		},
		"hostPath": func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
		},
		"hostPort": func(p *corev1.PodSpec) { p.Containers[0].Ports[0].HostPort = 80 },
		"AppArmor": func(p *corev1.PodSpec) {
			p.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		},
		"SELinux":   func(p *corev1.PodSpec) { p.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} },
		"procMount": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.ProcMount = &procMount },
		"seccomp":   func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil },
		"sysctls": func(p *corev1.PodSpec) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
		},
		"escalation":   func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"runAsNonRoot": func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
		"runAsUser":    func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = &root },
		"container: HostProcess": func(p *corev1.PodSpec) {
			container(p).WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: &yes}
		},
		"container: SELinux": func(p *corev1.PodSpec) { container(p).SELinuxOptions = &corev1.SELinuxOptions{Role: "r"} },
		"container: AppArmor": func(p *corev1.PodSpec) {
			container(p).AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		},
		"container: seccomp": func(p *corev1.PodSpec) {
			container(p).SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		},
		"container: runAsNonRoot": func(p *corev1.PodSpec) { container(p).RunAsNonRoot = &no },
		"container: runAsUser":    func(p *corev1.PodSpec) { container(p).RunAsUser = &root },
		"container: none":         func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = nil },
		"init container":          func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Name: "init"}} },
		"ephemeral container":     func(p *corev1.PodSpec) { p.EphemeralContainers = []corev1.EphemeralContainer{{}} },
		"probe of another host":   func(p *corev1.PodSpec) { p.Containers[0].LivenessProbe.HTTPGet.Host = "192.0.2.1" },
		"hook to another host": func(p *corev1.PodSpec) {
			p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "192.0.2.1"}}}
		},
	} {
		pod := deployed.DeepCopy()
		breakIt(pod)
		if got := restricted(pod, nil); len(got) != 1 {
			t.Errorf("%s: violations are %q, want one", name, got)
		}
	}
}

func container(p *corev1.PodSpec) *corev1.SecurityContext { return p.Containers[0].SecurityContext }

// restricted lists how a pod violates the restricted Pod Security Standard, control by control
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func restricted(pod *corev1.PodSpec, annotations map[string]string) (violations []string) {
	violate := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	s := pod.SecurityContext
	if s == nil {
		s = new(corev1.PodSecurityContext)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		violate("the pod shares a namespace of the host")
	}
	for _, v := range confinement(s.WindowsOptions, s.SELinuxOptions, s.AppArmorProfile, s.SeccompProfile) {
		violate("the pod: %s", v)
	}
	if s.SeccompProfile == nil {
		violate("seccomp is not set, want RuntimeDefault or Localhost")
	}
	for key, value := range annotations {
		if strings.HasPrefix(key, "container.apparmor.security.beta.kubernetes.io/") && value == "unconfined" {
			violate("AppArmor is unconfined by the annotation %s", key)
		}
	}
	for _, sysctl := range s.Sysctls {
		violate("sysctl %s is set", sysctl.Name)
	}
	if s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
		violate("runAsNonRoot is not true")
	}
	if s.RunAsUser != nil && *s.RunAsUser == 0 {
		violate("the pod runs as user 0")
	}
	for _, volume := range pod.Volumes {
		v := volume.VolumeSource
		if v.ConfigMap == nil && v.CSI == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Ephemeral == nil &&
			v.PersistentVolumeClaim == nil && v.Projected == nil && v.Secret == nil {
			violate("volume %s is of a type that reaches the host", volume.Name)
		}
	}
	containers := slices.Concat(pod.InitContainers, pod.Containers)
	for _, c := range pod.EphemeralContainers {
		containers = append(containers, corev1.Container(c.EphemeralContainerCommon))
	}
	for _, c := range containers {
		violations = append(violations, restrictedContainer(&c)...)
	}
	return violations
}

// confinement is what pods and containers may both say.
func confinement(windows *corev1.WindowsSecurityContextOptions, selinux *corev1.SELinuxOptions, appArmor *corev1.AppArmorProfile, seccomp *corev1.SeccompProfile) (violations []string) {
	violate := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	if windows != nil && windows.HostProcess != nil && *windows.HostProcess {
		violate("is a HostProcess")
	}
	if o := selinux; o != nil && (o.User != "" || o.Role != "" || !slices.Contains([]string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}, o.Type)) {
		violate("SELinux options are %v", o)
	}
	if appArmor != nil && appArmor.Type == corev1.AppArmorProfileTypeUnconfined {
		violate("AppArmor is unconfined")
	}
	if seccomp != nil && seccomp.Type != corev1.SeccompProfileTypeRuntimeDefault && seccomp.Type != corev1.SeccompProfileTypeLocalhost {
		violate("seccomp is %v, want RuntimeDefault or Localhost", seccomp.Type)
	}
	return violations
}

func restrictedContainer(c *corev1.Container) (violations []string) {
	violate := func(format string, args ...any) {
		violations = append(violations, "container "+c.Name+": "+fmt.Sprintf(format, args...))
	}
	s := c.SecurityContext
	if s == nil {
		return []string{"container " + c.Name + " has no securityContext"}
	}
	for _, v := range confinement(s.WindowsOptions, s.SELinuxOptions, s.AppArmorProfile, s.SeccompProfile) {
		violate("%s", v)
	}
	if s.Privileged != nil && *s.Privileged {
		violate("privileged")
	}
	for _, h := range handlers(c) {
		if h.HTTPGet != nil && h.HTTPGet.Host != "" || h.TCPSocket != nil && h.TCPSocket.Host != "" {
			violate("a probe or a hook asks another host")
		}
	}
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		violate("allowPrivilegeEscalation is not false")
	}
	if s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
		violate("not all capabilities are dropped")
	} else if slices.ContainsFunc(s.Capabilities.Add, func(c corev1.Capability) bool { return c != "NET_BIND_SERVICE" }) {
		violate("capabilities are added: %v", s.Capabilities.Add)
	}
	if s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount {
		violate("procMount is %s", *s.ProcMount)
	}
	if s.RunAsNonRoot != nil && !*s.RunAsNonRoot || s.RunAsUser != nil && *s.RunAsUser == 0 {
		violate("runs as root")
	}
	for _, port := range c.Ports {
		if port.HostPort != 0 {
			violate("host port %d", port.HostPort)
		}
	}
	return violations
}

// handlers are what the kubelet does to a container: its probes and hooks.
func handlers(c *corev1.Container) (handlers []corev1.ProbeHandler) {
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p != nil {
			handlers = append(handlers, p.ProbeHandler)
		}
	}
	if c.Lifecycle == nil {
		return handlers
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil {
			handlers = append(handlers, corev1.ProbeHandler{HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket})
		}
	}
	return handlers
}

func TestDeployedPartsFitTogether(t *testing.T) {
	objects := render(t, "../deploy")
	deployment := only[*appsv1.Deployment](t, objects)
	pod, service := deployment.Spec.Template, only[*corev1.Service](t, objects)
	if got := only[*networkingv1.IngressClass](t, objects).Spec.Controller; got != "sallyport/ingress-controller" {
		t.Errorf("the IngressClass is for controller %q", got)
	}
	if *deployment.Spec.Replicas != 2 || deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("%d replicas with maxUnavailable %v, want 2 and 0", *deployment.Spec.Replicas, deployment.Spec.Strategy.RollingUpdate.MaxUnavailable)
	}
	for what, selector := range map[string]map[string]string{
		"Deployment":          deployment.Spec.Selector.MatchLabels,
		"Service":             service.Spec.Selector,
		"PodDisruptionBudget": only[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels,
	} {
		for key, value := range selector {
			if pod.Labels[key] != value || len(selector) != 3 {
				t.Errorf("the selector of the %s is %v, which is not name, instance and component of the pod's labels %v", what, selector, pod.Labels)
			}
		}
	}
	ports := make(map[string]int32)
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	nodePorts := make(map[int32]string)
	for _, p := range service.Spec.Ports {
		nodePorts[p.NodePort] = p.TargetPort.String()
		if ports[p.TargetPort.String()] == 0 {
			t.Errorf("Service port %s leads to %s, which the pod does not have", p.Name, p.TargetPort.String())
		}
	}
	if service.Spec.Type != corev1.ServiceTypeNodePort || nodePorts[30080] != "http" || nodePorts[30443] != "https" {
		t.Errorf("the Service is a %s with node ports %v, want 30080 for http and 30443 for https", service.Spec.Type, nodePorts)
	}
	args := strings.Join(pod.Spec.Containers[0].Args, " ")
	for name, port := range ports {
		if flag := fmt.Sprintf("--%s-port=%d", name, port); !strings.Contains(args, flag) {
			t.Errorf("the arguments %q do not say %s", args, flag)
		}
	}
	for what, probe := range map[string]*corev1.Probe{
		"/readyz": pod.Spec.Containers[0].ReadinessProbe, "/livez": pod.Spec.Containers[0].LivenessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != what || probe.HTTPGet.Port.String() != "admin" {
			t.Errorf("the probe of %s on the admin port is %v", what, probe)
		}
	}
	if pod.Spec.Containers[0].StartupProbe == nil {
		t.Error("no startup probe")
	}
	if len(pod.Spec.TopologySpreadConstraints) != 2 {
		t.Errorf("%d topology spread constraints, want hostname and zone", len(pod.Spec.TopologySpreadConstraints))
	}
}

// TestDeployedFlagsExist starts the binary with the arguments of the Deployment: outside a pod it must complain of the
// missing cluster, and of nothing else.
func TestDeployedFlagsExist(t *testing.T) {
	pod := only[*appsv1.Deployment](t, render(t, "../deploy")).Spec.Template.Spec
	command := exec.Command(e2e.Tool("sallyport"), pod.Containers[0].Args...)
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "--manifests") || strings.Contains(string(out), "unknown flag") {
		t.Errorf("sallyport %q: %v\n%s\nwant exit code 2 and a word about --manifests and --kubeconfig", pod.Containers[0].Args, err, out)
	}
}

// TestEveryPermissionIsAskedFor holds the roles against what the code asks for: nothing is missing, nothing is left over.
func TestEveryPermissionIsAskedFor(t *testing.T) {
	objects := render(t, "../deploy")
	everywhere, own := feedback.Permissions()
	comparePermissions(t, only[*rbacv1.ClusterRole](t, objects).Rules, slices.Concat(cluster.Permissions(), everywhere))
	role := only[*rbacv1.Role](t, objects)
	comparePermissions(t, role.Rules, own)
	for _, rule := range role.Rules {
		if !slices.Equal(rule.Verbs, []string{"create"}) && len(rule.ResourceNames) == 0 {
			t.Errorf("the Role grants %v of every object of %v, want one by name", rule.Verbs, rule.Resources)
		}
	}
}

// TestEveryOverlayMayShareSessionTickets holds that no overlay leaves the replicas with keys of their own.
func TestEveryOverlayMayShareSessionTickets(t *testing.T) {
	overlays, err := filepath.Glob("../deploy/overlays/*")
	if err != nil || len(overlays) == 0 {
		t.Fatalf("there are no overlays: %v", err)
	}
	for _, folder := range append(overlays, "../deploy") {
		granted := make(map[string]bool)
		for _, object := range render(t, folder) {
			role, ok := object.(*rbacv1.Role)
			if !ok || role.Namespace != "sallyport" {
				continue
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "secrets") && (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, feedback.TicketSecret)) {
					for _, verb := range rule.Verbs {
						granted[verb] = true
					}
				}
			}
		}
		for _, verb := range []string{"create", "get", "update"} {
			if !granted[verb] {
				t.Errorf("%s does not grant to %s the Secret %s", folder, verb, feedback.TicketSecret)
			}
		}
	}
}

func comparePermissions(t *testing.T, rules []rbacv1.PolicyRule, asked []controller.Permission) {
	t.Helper()
	granted := make(map[string]bool)
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[verb+" "+resource+" of group "+group] = true
				}
			}
		}
	}
	for _, p := range asked {
		for _, verb := range p.Verbs {
			permission := verb + " " + p.Resource + " of group " + p.Group
			if !granted[permission] {
				t.Errorf("the code asks to %s (%s), which deploy/ does not grant", permission, p.Why)
			}
			delete(granted, permission)
		}
	}
	for permission := range granted {
		t.Errorf("deploy/ grants to %s, which nothing asks for", permission)
	}
}

func TestLoadBalancerOverlay(t *testing.T) {
	service := only[*corev1.Service](t, render(t, "../deploy/overlays/loadbalancer"))
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || len(service.Spec.Ports) != 2 {
		t.Errorf("the Service is a %s with policy %s and ports %v", service.Spec.Type, service.Spec.ExternalTrafficPolicy, service.Spec.Ports)
	}
}

func TestHostPortOverlay(t *testing.T) {
	objects := render(t, "../deploy/overlays/hostport")
	container := only[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0]
	ports := make(map[string]int32)
	for _, p := range container.Ports {
		ports[p.Name] = p.HostPort
	}
	if ports["http"] != 80 || ports["https"] != 443 || ports["admin"] != 0 || len(ports) != 3 {
		t.Errorf("host ports are %v, want 80 for http and 443 for https", ports)
	}
	if args := strings.Join(container.Args, " "); strings.Contains(args, "publish") || !strings.Contains(args, "--drain-delay") {
		t.Errorf("the arguments are %q, want the base's without an address to publish", args)
	}
	if service := only[*corev1.Service](t, objects); service.Spec.Type != corev1.ServiceTypeClusterIP || service.Spec.ExternalTrafficPolicy != "" || service.Spec.Ports[0].NodePort != 0 {
		t.Errorf("the Service is %v, want one inside the cluster", service.Spec)
	}
}

func TestACMEOverlay(t *testing.T) {
	objects := render(t, "../deploy/overlays/acme")
	if args := only[*appsv1.Deployment](t, objects).Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--acme-accept-terms") {
		t.Errorf("the arguments are %q, want them to agree to the terms", args)
	}
	for _, object := range objects {
		if role, ok := object.(*rbacv1.Role); ok && role.Name == "sallyport-acme" {
			comparePermissions(t, role.Rules, keeper.Permissions())
			return
		}
	}
	t.Error("there is no Role sallyport-acme")
}
