package session

// kept are the variables that a server and a shim have: where things are, and
// nothing of the session that happened to start them.
var kept = [...]string{
	"HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TMPDIR",
	"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
	"GOCOVERDIR", "GORACE", // of the Go toolchain, for tests
}

// CleanEnvironment is the environment of servers and shims, made from that of
// whoever starts one.
func CleanEnvironment(getenv func(string) string) []string {
	var env []string
	for _, name := range kept {
		if v := getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
