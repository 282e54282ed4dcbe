// Package metrics knows what a trial reports and how it arrives: the metric
// record, NNI's two framings and our own lines, and the journal in which a
// runner keeps them beside the trial.
package metrics

import (
	"time"

	"github.com/perennial-ml/perennial/trial"
)

// Kind is what a journal record holds.
type Kind string

// The kinds of records; the first two are NNI's metric types.
const (
	Periodical Kind = "PERIODICAL"
	Final      Kind = "FINAL"
	Unreadable Kind = "UNREADABLE" // a line marked as a metric that is none; Value is the line, or how it begins and how long it is
)

// MaxBytes is the largest metric NNI's SDK sends: its JSON with the newline.
const MaxBytes = 999_999

// Record is one entry of an attempt's journal.
type Record struct {
	Number int64     `json:"number"` // from 1, without gaps, in the order read
	Time   time.Time `json:"time"`   // when the runner read it
	Kind   Kind      `json:"kind"`
	Step   int64     `json:"step"` // NNI's sequence: data, not identity
	// Value is the JSON text as the trial reported it: a number, an object with
	// "default", or anything else; it may hold bare NaN and Infinity.
	Value string `json:"value"`
}

// Line is a record together with the attempt that reported it.
type Line struct {
	Key    trial.Key `json:"key"`
	Record Record    `json:"record"`
}
