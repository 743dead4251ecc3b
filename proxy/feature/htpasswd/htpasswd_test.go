package htpasswd

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a hash that counts how often it is computed, and takes as long as told.
type counted struct {
	password string
	takes    time.Duration
	times    atomic.Int32
}

func (c *counted) matches(password string) bool {
	c.times.Add(1)
	time.Sleep(c.takes)
	return password == c.password
}

// fake makes a File whose users have counted hashes, each of its own kind, and one slot.
func fake(hashes map[string]*counted) *File {
	f := newFile()
	f.slots = make(slots, 1)
	f.costly = true
	for user, c := range hashes {
		f.users[user] = &entry{hash: userHash{matches: c.matches, kind: user}}
		f.kinds[user] = c.matches
	}
	return f
}

func TestEveryRefusalDoesTheSameWork(t *testing.T) {
	hashes := map[string]*counted{"ann": {password: "a"}, "bob": {password: "b"}, "carl": {password: "c"}}
	f := fake(hashes)
	for i, user := range []string{"ann", "bob", "carl", "nobody", ""} {
		if v := f.ask(user, "wrong"); v != Refused {
			t.Errorf("%q: %d", user, v)
		}
		for name, c := range hashes {
			if n := int(c.times.Load()); n != i+1 {
				t.Errorf("refusing %q computed the hash of kind %s %d times, want once", user, name, n-i)
				c.times.Store(int32(i + 1))
			}
		}
	}
}

func TestKindsAreThoseOfTheUsers(t *testing.T) {
	f, errs := Parse([]byte("a:" + bcrypt05 + "\nb:" + bcrypt05 + "\nc:" + strings.Replace(bcrypt05, "$2y$05", "$2a$06", 1) + "\nd:" + apr1 + "\ne:" + plainSHA + "\nf:" + saltedSHA))
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	if len(f.kinds) != 4 || !f.costly {
		t.Errorf("kinds %v, costly %v; want two costs of bcrypt, one of apr1 and one of SHA", f.kinds, f.costly)
	}
	if quick, _ := Parse([]byte("e:" + plainSHA)); quick.costly {
		t.Error("SHA alone is remembered, which takes as long as to compute it")
	}
}

func TestPassedIsRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := &counted{password: "a"}
		f := fake(map[string]*counted{"ann": ann})
		for _, step := range []struct {
			after time.Duration
			want  int32
		}{{0, 1}, {0, 1}, {remembered - time.Second, 1}, {2 * time.Second, 2}, {time.Second, 2}} {
			time.Sleep(step.after)
			if v := f.ask("ann", "a"); v != Passed {
				t.Errorf("%d", v)
			}
			if n := ann.times.Load(); n != step.want {
				t.Errorf("%v later the hash was computed %d times, want %d", step.after, n, step.want)
			}
		}
		if v := f.ask("ann", "b"); v != Refused {
			t.Errorf("beside what is remembered, another password: %d", v)
		}
	})
}

func TestRefusedIsNotRemembered(t *testing.T) {
	ann := &counted{password: "a"}
	f := fake(map[string]*counted{"ann": ann})
	for range 3 {
		f.ask("ann", "wrong")
	}
	if n := ann.times.Load(); n != 3 {
		t.Errorf("three wrong passwords computed %d hashes", n)
	}
	if f.users["ann"].passed.Load() != nil || f.stranger.passed.Load() != nil || len(f.attempts) != 0 {
		t.Error("something of them is kept")
	}
}

func TestWhatIsRememberedIsOfOneFileAndPair(t *testing.T) {
	f := newFile()
	sum := f.mac("ab", "c")
	if sum != f.mac("ab", "c") {
		t.Error("a pair has two marks")
	}
	if sum == f.mac("a", "bc") {
		t.Error("two pairs have one mark")
	}
	if sum == newFile().mac("ab", "c") {
		t.Error("two files have one key")
	}
	user, password := strings.Repeat("u", maxUser), strings.Repeat("p", maxPassword)
	h := hmac.New(sha256.New, f.key[:])
	h.Write([]byte("\x00\x00\x01\x00" + user + password))
	if got := f.mac(user, password); !hmac.Equal(got[:], h.Sum(nil)) {
		t.Errorf("the mark %x is not the HMAC", got)
	}
}

// TestCheckThatComesLateComputesNothing: it looked before another was remembered, and asks to compute after that.
func TestCheckThatComesLateComputesNothing(t *testing.T) {
	ann := &counted{password: "a"}
	f := fake(map[string]*counted{"ann": ann})
	f.ask("ann", "a")
	if v := f.together(context.Background(), f.mac("ann", "a"), f.users["ann"], "a"); v != Passed || ann.times.Load() != 1 {
		t.Errorf("%d after %d hashes, want one", v, ann.times.Load())
	}
}

func TestChecksOfOnePairComputeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for password, want := range map[string]Verdict{"a": Passed, "b": Refused} {
			ann := &counted{password: "a", takes: time.Second}
			f := fake(map[string]*counted{"ann": ann})
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if v := f.ask("ann", password); v != want {
						t.Errorf("%q: %d, want %d", password, v, want)
					}
				})
			}
			all.Wait()
			if n := ann.times.Load(); n != 1 {
				t.Errorf("100 checks of one pair computed %d hashes", n)
			}
		}
	})
}

func TestChecksWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann := &counted{password: "a", takes: 1500 * time.Millisecond}
		f := fake(map[string]*counted{"ann": ann})
		start := time.Now()
		var verdicts [3]atomic.Int32
		var all sync.WaitGroup
		for i := range 2 + maxWaiting {
			all.Go(func() {
				v := f.ask("ann", fmt.Sprint("wrong ", i))
				verdicts[v].Add(1)
				if waited := time.Since(start); v == Busy && waited != 0 && waited != maxWait {
					t.Errorf("busy after %v, want at once or after %v", waited, maxWait)
				}
			})
			synctest.Wait()
			if i > maxWaiting && verdicts[Busy].Load() != 1 {
				t.Error("one more than may wait is not turned away at once")
			}
		}
		all.Wait()
		// One has the slot, one gets it after 1.5 s, the others find it taken after 2 s.
		if refused, busy := verdicts[Refused].Load(), verdicts[Busy].Load(); refused != 2 || busy != maxWaiting {
			t.Errorf("%d refused and %d busy, want 2 and %d", refused, busy, maxWaiting)
		}
		if n := ann.times.Load(); n != 2 {
			t.Errorf("%d hashes were computed, want 2", n)
		}
		if n := f.waiting.Load(); n != 0 || len(f.attempts) != 0 || len(f.slots) != 0 {
			t.Errorf("%d wait, %d compute, %d slots are taken when all is done", n, len(f.attempts), len(f.slots))
		}
	})
}

func TestRememberedUsersNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake(map[string]*counted{"ann": {password: "a", takes: time.Second}})
		f.ask("ann", "a")
		f.slots <- struct{}{} // the attack
		start := time.Now()
		if v := f.ask("ann", "a"); v != Passed || time.Since(start) != 0 {
			t.Errorf("%d after %v, want at once", v, time.Since(start))
		}
	})
}

func TestWhoGivesUpLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake(map[string]*counted{"ann": {password: "a"}})
		f.slots <- struct{}{}
		ctx, giveUp := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			if v := f.Check(ctx, "ann", "a"); v != Busy {
				t.Errorf("who gave up: %d", v)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if v := f.ask("ann", "a"); v != Passed {
				t.Errorf("who waited with it: %d", v)
			}
		})
		impatient, leave := context.WithCancel(context.Background())
		all.Go(func() {
			if v := f.Check(impatient, "ann", "a"); v != Busy {
				t.Errorf("another who gave up: %d", v)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		giveUp()
		synctest.Wait()
		f.slots.give()
		all.Wait()
	})
}

func TestSlotsComeBackFromAPanic(t *testing.T) {
	f := fake(map[string]*counted{})
	f.users["ann"] = &entry{hash: userHash{matches: func(string) bool { panic("a bug") }, kind: "bug"}}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is hidden")
			}
		}()
		f.ask("ann", "a")
	}()
	if len(f.slots) != 0 || len(f.attempts) != 0 {
		t.Error("a slot or an attempt is lost")
	}
}

func TestHashesLeaveCoresToOthers(t *testing.T) {
	if n := cap(everyone); n < 1 {
		t.Errorf("%d slots", n)
	}
	if newFile().slots != everyone {
		t.Error("a file has slots of its own")
	}
}

func TestCheckOfWhoIsRememberedAllocatesNothing(t *testing.T) {
	f, _ := Parse([]byte("ann:" + bcrypt05))
	ctx := context.Background()
	if f.Check(ctx, "ann", "open sesame") != Passed {
		t.Fatal("ann is not let in")
	}
	if n := testing.AllocsPerRun(1000, func() { f.Check(ctx, "ann", "open sesame") }); n != 0 {
		t.Errorf("a check allocates %v times", n)
	}
}

func BenchmarkRemembered(b *testing.B) {
	f, _ := Parse([]byte("ann:" + bcrypt05))
	b.ReportAllocs()
	for b.Loop() {
		f.ask("ann", "open sesame")
	}
}
