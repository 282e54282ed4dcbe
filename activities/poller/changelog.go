package poller

import (
	"log/slog"
	"sync"
)

// changeLog logs a problem when it appears, changes or goes, not while it lasts.
type changeLog struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   map[string]map[string]string // by subject and what was tried
}

// problem notes how something about a subject went; nil is well. The empty
// subject is the platform.
func (l *changeLog) problem(subject, what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, text := l.last[subject][what], ""
	if err != nil {
		text = err.Error()
	}
	l.remember(subject, what, text)
	switch {
	case before == text:
	case text == "":
		l.logger.Info("well again", "what", what, "subject", subject)
	default:
		l.logger.Warn("will be tried again", "what", what, "subject", subject, "error", text)
	}
}

func (l *changeLog) remember(subject, what, text string) {
	if text == "" {
		delete(l.last[subject], what)
		return
	}
	if l.last[subject] == nil {
		l.last[subject] = map[string]string{}
	}
	l.last[subject][what] = text
}

// forget drops what is known of a subject that nobody will mention again.
func (l *changeLog) forget(subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, subject)
}
