package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A process is a program that was started, with all that it starts: they share a process group, which is how their
// CPU time and memory are found and how they are ended.
//
// If this program is killed, the kernel sends SIGTERM to what it started, and that ends its own children.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	said   string // the file with what it wrote to standard error
}

// startProcess starts a program with its output in files of the folder: NAME.out and NAME.err. Only the main goroutine may.
func startProcess(folder, name string, command ...string) (*process, error) {
	out, err := os.Create(filepath.Join(folder, name+".out"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(filepath.Join(folder, name+".err"))
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	p := &process{name: name, exited: make(chan struct{}), said: errs.Name()}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir = folder
	p.cmd.Stdout, p.cmd.Stderr = out, errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// stop ends the whole group at once and waits, for a few seconds, until nobody of it is left.
func (p *process) stop() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
	for range 500 {
		if p.each(func(string, []string) error { return nil }) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// await asks until the process is as it should be, for ten seconds.
func (p *process) await(asked func() error) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	var err error
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		if err = asked(); err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %s", p.name, p.lastWords())
		case <-again.C:
		}
	}
	return fmt.Errorf("%s: %w; it said: %s", p.name, err, p.lastWords())
}

func (p *process) lastWords() string {
	text, _ := os.ReadFile(p.said)
	return string(bytes.TrimSpace(text[max(0, len(text)-2000):]))
}

// ticksPerSecond is the unit of times in /proc: USER_HZ, 100 on every platform that Go runs on.
const ticksPerSecond = 100

// cpu is the time that the processes of the group have run so far, in user and kernel mode.
func (p *process) cpu() (time.Duration, error) {
	ticks := 0
	err := p.each(func(folder string, fields []string) error {
		// Fields 14 and 15 of proc_pid_stat(5); fields begins with the third.
		for _, field := range fields[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			ticks += n
		}
		return nil
	})
	return time.Duration(ticks) * time.Second / ticksPerSecond, err
}

// memory is how much of the group is in memory, in bytes. What several processes share, of this group or any, is divided
// among them ("Pss"): the sum of resident sizes would count a library once for each worker.
func (p *process) memory() (int, error) {
	sum := 0
	err := p.each(func(folder string, _ []string) error {
		text, err := os.ReadFile(folder + "/smaps_rollup")
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if rest, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
				n, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
				sum += n * kibibyte
				return err
			}
		}
		return errors.New(folder + "/smaps_rollup has no Pss")
	})
	return sum, err
}

// each calls found with the folder in /proc and the fields of its stat, from the state on, of each process of the group.
func (p *process) each(found func(folder string, fields []string) error) error {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	group, members := strconv.Itoa(p.cmd.Process.Pid), 0
	for _, folder := range folders {
		stat, err := os.ReadFile(folder + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := statFields(stat)
		if len(fields) < 13 || fields[2] != group || fields[0] == "Z" {
			continue // a zombie has ended, though nobody has looked yet
		}
		members++
		if err := found(folder, fields); err != nil {
			return err
		}
	}
	if members == 0 {
		return fmt.Errorf("%s has ended: %s", p.name, p.lastWords())
	}
	return nil
}

// statFields are the fields of /proc/PID/stat from the third on: the second, a name in parentheses, may hold anything.
func statFields(stat []byte) (fields []string) {
	for _, field := range bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) {
		fields = append(fields, string(field))
	}
	return fields
}
