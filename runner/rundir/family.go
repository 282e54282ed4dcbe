package rundir

import "os"

// family returns the living processes of a run, whoever's they are, as far as the
// record tells: the descendants of the runner and of all recorded processes, whoever
// is in the command's session and, where the runner is dead, whoever carries the
// run's mark. None where the record's pids mean nothing here. Where /proc hides
// other users' processes (hidepid) so does family.
func (p Process) family(mark uint64) ([]Identity, error) {
	here, err := p.here()
	if err != nil || !here {
		return nil, err
	}
	table, err := readTable(func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	search := search{table: table, recorded: p, found: map[int]bool{}}
	if !search.runnerLives() { // else they all are below it
		search.mark = mark
	}
	for pid, status := range table {
		if search.isRecorded(status) || search.inSession(status) || search.isMarked(status) {
			search.found[pid] = true
		}
	}
	for _, pid := range search.pids() {
		search.addChildren(pid)
	}
	if search.runnerLives() {
		search.addChildren(p.Runner.PID)
	}
	return search.identities(), nil
}

// hidden tells whether /proc hides other users' processes: if so, then the first
// of all as well.
func hidden() bool {
	_, err := os.ReadFile("/proc/1/stat")
	return err != nil
}

// here tells whether pids in the record mean anything to this process.
func (p Process) here() (bool, error) {
	boot, err := bootID()
	if err != nil {
		return false, err
	}
	namespace, err := pidNamespace()
	return boot == p.BootID && namespace == p.PIDNamespace, err
}
