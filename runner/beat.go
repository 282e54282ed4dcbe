package runner

import "time"

// beat is how often an idle runner wakes up, and so how soon it sees an intent.
const beat = 200 * time.Millisecond

var birth = time.Now()

// untilBeat returns about how long it is until the next multiple of an interval
// since this process began. Whoever waits so wakes up together with the others: waking
// up is most of what an idle runner costs, and there may be a thousand of them.
func untilBeat(interval time.Duration) time.Duration {
	wait := interval - time.Since(birth)%interval
	if wait < interval/10 {
		wait += interval // just awake, a little early
	}
	return wait
}
