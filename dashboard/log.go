package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
)

type logInput struct {
	TrialPath
	Stream  string `query:"stream" enum:"stdout,stderr,trial.log" default:"stdout"`
	Attempt int    `query:"attempt" minimum:"0" doc:"from 1; 0 is the newest"`
	From    int64  `query:"from" minimum:"-1048576" doc:"the first byte; below 0 so many before the end, where the log lies on this machine"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1048576" default:"262144" doc:"bytes at most"`
}

type logPiece struct {
	ContentType string `header:"Content-Type"`
	Attempt     int    `header:"Perennial-Attempt" doc:"whose it is"`
	From        int64  `header:"Perennial-From" doc:"its first byte"`
	Next        int64  `header:"Perennial-Next" doc:"where the next piece begins"`
	Body        []byte
}

// log returns a piece of what a trial wrote, as text that no browser takes for a page.
func (s *server) log(ctx context.Context, in *logInput) (*logPiece, error) {
	e, number, err := s.find(ctx, in.TrialPath)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Attempts(ctx, e.ID, number)
	if err != nil {
		return nil, problem(err)
	}
	chosen := in.Attempt
	if chosen == 0 {
		chosen = len(attempts)
	}
	piece := &logPiece{ContentType: "text/plain; charset=utf-8", Attempt: chosen, From: max(in.From, 0), Next: max(in.From, 0)}
	if chosen == 0 {
		return piece, nil // it waits
	}
	if chosen > len(attempts) {
		return nil, huma.Error404NotFound("trial " + strconv.Itoa(number) + " has " + strconv.Itoa(len(attempts)) + " attempts")
	}
	return piece, s.readLog(ctx, attempts[chosen-1], in, piece)
}

func (s *server) readLog(ctx context.Context, attempt record.Attempt, in *logInput, piece *logPiece) error {
	stream, from, err := views.OpenLog(ctx, attempt, platforms.Log{Stream: in.Stream, From: in.From}, s.Logs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return huma.Error502BadGateway(fmt.Sprintf("the log cannot be read on platform %s: %v", attempt.Platform, err))
	}
	defer stream.Close()
	body, err := io.ReadAll(io.LimitReader(stream, int64(in.Limit)))
	if err != nil {
		return problem(err)
	}
	body = wholeLetters(body)
	piece.From, piece.Next, piece.Body = from, from+int64(len(body)), body
	return nil
}

// wholeLetters leaves a letter that was cut at the end to the next piece.
func wholeLetters(text []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut < len(text); cut++ {
		at := len(text) - cut
		if utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return text[:at]
			}
			break
		}
	}
	return text
}
