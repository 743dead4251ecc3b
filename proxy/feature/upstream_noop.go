package feature

// withoutEffect are annotations and keys that are read, so that manifests need no edit, and change nothing: what they
// tune is not there (reference B3 #35 to #39, B2 #29, B14 #128).
func withoutEffect(a *Annotations, _ *Draft) {
	a.Section("Accepted without effect", ReachPaths, "These tune buffers and logs of nginx. Answers are always passed on as they come; the head of an answer may have 64 KiB; "+
		"nothing of an answer is ever kept on disk. HTTP/2 server push is gone from browsers, and from nginx too.")
	const none = "; has no effect"
	a.Shared().OnOff("proxy-buffering", false, "whether answers are buffered"+none)
	a.Shared().Size("proxy-buffer-size", 4<<10, "the buffer for the head of an answer"+none)
	a.Shared().Int("proxy-buffers-number", 4, "the number of buffers for an answer"+none)
	a.Shared().Size("proxy-busy-buffers-size", 0, "how much of the buffers may be on its way to the client"+none)
	a.Shared().Size("proxy-max-temp-file-size", 1<<30, "the size of temporary files for answers"+none)
	a.Config().Size("ssl-buffer-size", 4<<10, "the size of TLS records"+none)
	a.Config().Int("grpc-buffer-size-kb", 0, "the buffer for answers of gRPC endpoints"+none)
	a.Bool("http2-push-preload", false, "whether resources that a Link field names are pushed"+none)
	a.Bool("enable-rewrite-log", false, "whether rewrites are logged"+none)
}
