// Killtest kills an agentmux at random moments and looks at what survives. Each
// round is one session whose program floods numbered lines that prove
// themselves (flood.go), with a client attached on a real terminal that types
// numbered keys (viewer.go). Server, client or both are killed with SIGKILL
// meanwhile: then every line must be in the log once and in order, every key
// of a client that was not killed must have arrived once, and the screens must
// be right. In other rounds the shim is killed: then the run is lost, and the
// log must be an intact beginning (round.go). scripts/soak builds and runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"agentmux/scripts/harness"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "flood" {
		if err := flood(); err != nil {
			fmt.Fprintln(os.Stderr, "killtest flood:", err)
			os.Exit(1)
		}
		return
	}
	if err := soak(); err != nil {
		fmt.Println("soak: FAILED:", err)
		os.Exit(1)
	}
}

func soak() (err error) {
	bin := flag.String("agentmux", "", "the program under test")
	dir := flag.String("dir", "", "scratch directory, not there yet")
	rounds := flag.Int("rounds", 200, "rounds")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments")
	kind := flag.String("kind", "", "rounds of one kind only: server, client, both or shim")
	flag.Parse()
	if *bin == "" || *dir == "" || flag.NArg() > 0 {
		return errors.New("run it by scripts/soak")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	mux, err := harness.NewMux(*bin, *dir)
	if err != nil {
		return err
	}
	s := &soaker{mux: mux, self: self, random: rand.New(rand.NewPCG(*seed, 0))}
	fmt.Printf("soak: %d rounds, seed %d\n", *rounds, *seed)
	began := time.Now()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		s.killAll()
		fmt.Println("soak: FAILED: interrupted")
		os.Exit(1)
	}()
	defer func() { err = errors.Join(err, s.end()) }()
	for n := 1; n <= *rounds; n++ {
		k := s.kind()
		if *kind != "" {
			k = *kind
		}
		if err := s.round(n, k); err != nil {
			return fmt.Errorf("round %d (%s), seed %d: %w", n, k, *seed, err)
		}
		if n%10 == 0 && n < *rounds {
			fmt.Printf("soak: %d rounds done after %v\n", n, time.Since(began).Round(time.Second))
		}
	}
	fmt.Printf("soak: %d rounds in %v: killed %d servers, %d clients, %d shims; %d lines (%d MB) and %d keys checked; longest without a server %v\n",
		*rounds, time.Since(began).Round(time.Second), s.servers, s.clients, s.shims,
		s.lines, s.bytes>>20, s.keys, s.longest.Round(time.Millisecond))
	return s.descriptors()
}

// kind draws what a round kills.
func (s *soaker) kind() string {
	switch n := s.random.IntN(100); {
	case n < 35:
		return "server"
	case n < 65:
		return "client"
	case n < 85:
		return "both"
	}
	return "shim"
}

// descriptors compares the open files of the server that lived through the last
// rounds with those of a fresh one: there is no session left.
func (s *soaker) descriptors() error {
	old, err := s.openFiles()
	if err != nil {
		return err
	}
	if _, err := s.mux.Must("server", "stop"); err != nil {
		return err
	}
	if _, err := s.mux.Must("server", "start"); err != nil {
		return err
	}
	fresh, err := s.openFiles()
	if err != nil {
		return err
	}
	if old > fresh+2 {
		return fmt.Errorf("the server has %d open files without a session, a fresh one %d", old, fresh)
	}
	return nil
}

func (s *soaker) openFiles() (int, error) {
	pid := s.mux.ServerPID()
	if pid == 0 {
		return 0, errors.New("no server is running")
	}
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(list), err
}

// end stops what runs here and fails if anything is left.
func (s *soaker) end() error {
	list, err := s.mux.Sessions()
	for _, x := range list {
		if x.State == "running" {
			_, killErr := s.mux.MustFor(time.Minute, "kill", x.Name)
			err = errors.Join(err, killErr)
		}
	}
	_, stopErr := s.mux.Must("server", "stop")
	gone := harness.Gone(harness.Limit, s.mark())
	if gone != nil {
		s.killAll()
	}
	return errors.Join(err, stopErr, gone)
}

// mark is in the environment of all that runs here.
func (s *soaker) mark() string { return "XDG_STATE_HOME=" + s.mux.State() }

// killAll leaves nothing behind, whatever is wrong. One look is not enough: a
// shim that wins the server's lock starts another server, and a process that
// is between fork and exec has no mark for a moment.
func (s *soaker) killAll() {
	for quiet := 0; quiet < 25; quiet++ {
		for _, p := range harness.Find(s.mark()) {
			syscall.Kill(p.PID, syscall.SIGKILL)
			quiet = 0
		}
		time.Sleep(harness.Poll)
	}
}
