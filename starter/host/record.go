package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/record"
)

// RecordVariable names the variable that says where the record is: the address of a
// database of PostgreSQL's, ${file:PATH} of a file that has it, or ${env:NAME}.
const RecordVariable = "PERENNIAL_RECORD"

// RecordFile is where the record is of a state directory that has its own.
func RecordFile(home string) string { return filepath.Join(home, "record.sqlite") }

// recordFormat numbers the layout of the file that says where the record is.
const recordFormat = 1

// keptRecord is what a state directory says of a record that is elsewhere.
type keptRecord struct {
	Format int `json:"format"`
	// Location is as it was given, but for a password.
	Location string `json:"location"`
	// Secret says that there was a password, which has to be given again.
	Secret bool `json:"secret"`
}

// Record is where the record of a state directory is.
type Record struct {
	// Location is as record.Open takes it. It may have a password in it.
	Location string
	// Given is what RecordVariable says.
	Given string

	home string
	kept *keptRecord
}

// FindRecord tells where the record is of a state directory, which need not exist: where
// the variable says, else where the directory remembers, else in the directory. It
// refuses another place than that in which the record is known to be.
func FindRecord(home string, lookupEnv func(string) (string, bool)) (Record, error) {
	given, _ := lookupEnv(RecordVariable)
	r := Record{Given: strings.TrimSpace(given), home: home}
	var err error
	if r.kept, err = readKeptRecord(home); err != nil {
		return r, err
	}
	switch {
	case r.Given != "":
		r.Location, err = ResolveRecord(r.Given, lookupEnv)
	case r.kept == nil:
		r.Location = RecordFile(home)
	case r.kept.Secret:
		err = fmt.Errorf("the record of this state directory is %s, and its password is not here: set %s as it was when that host was started",
			r.kept.Location, RecordVariable)
	default:
		r.Location, err = ResolveRecord(r.kept.Location, lookupEnv)
	}
	if err != nil {
		return r, err
	}
	return r, r.same(lookupEnv)
}

// same refuses to leave a record for another one.
func (r Record) same(lookupEnv func(string) (string, bool)) error {
	there := ""
	if _, err := os.Stat(RecordFile(r.home)); err == nil {
		there = RecordFile(r.home)
	}
	if r.kept != nil {
		there = r.kept.shown(lookupEnv)
	}
	if here := record.Redacted(r.Location); there != "" && here != there {
		return fmt.Errorf("the record of this state directory is %s, and %s is meant: \"starter record move\" carries one over, "+
			"and PERENNIAL_HOME names another state directory", there, here)
	}
	return nil
}

// KeptRecord is where the record of a state directory is, as it may be shown.
func KeptRecord(home string, lookupEnv func(string) (string, bool)) (string, error) {
	kept, err := readKeptRecord(home)
	if err != nil || kept == nil {
		return RecordFile(home), err
	}
	return kept.shown(lookupEnv), nil
}

func (k keptRecord) shown(lookupEnv func(string) (string, bool)) string {
	if location, err := ResolveRecord(k.Location, lookupEnv); err == nil {
		return record.Redacted(location)
	}
	return record.Redacted(k.Location)
}

// ResolveRecord makes a location of what RecordVariable may say.
func ResolveRecord(given string, lookupEnv func(string) (string, bool)) (string, error) {
	location := given
	if reference, is := experiment.ParseReference(given); is {
		var err error
		if location, err = follow(reference, lookupEnv); err != nil {
			return "", fmt.Errorf("%s, in %s: %w", reference, RecordVariable, err)
		}
	}
	if !record.InPostgres(location) {
		return "", fmt.Errorf("%s names no database: it is postgresql://USER@HOST/DATABASE, or ${file:PATH} of a file with that; "+
			"without it the record is a file in the state directory", RecordVariable)
	}
	return location, nil
}

func follow(reference experiment.Reference, lookupEnv func(string) (string, bool)) (string, error) {
	switch reference.Kind {
	case experiment.FileReference:
		if !filepath.IsAbs(reference.Name) {
			return "", errors.New("give the whole path: the host works in another directory")
		}
		content, err := os.ReadFile(reference.Name)
		return strings.TrimSpace(string(content)), err
	case experiment.EnvironmentReference:
		value, set := lookupEnv(reference.Name)
		if !set {
			return "", errors.New("that variable is not set")
		}
		return strings.TrimSpace(value), nil
	}
	return "", errors.New("no such kind of reference: file and env are")
}

func recordNote(home string) string { return filepath.Join(home, "record.json") }

func readKeptRecord(home string) (*keptRecord, error) {
	path := recordNote(home)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept keptRecord
	if err := json.Unmarshal(content, &kept); err != nil || kept.Format < 1 || kept.Location == "" {
		return nil, fmt.Errorf("%s, which says where the record is, is damaged: put it back from a backup", path)
	}
	if kept.Format > recordFormat {
		return nil, fmt.Errorf("%s was written by a newer starter (format %d): update starter", path, kept.Format)
	}
	return &kept, nil
}

// Keep has the state directory remember where its record is, without a password.
func (r Record) Keep(dir Dir) error {
	if r.kept != nil || !record.InPostgres(r.Location) {
		return nil
	}
	return KeepRecord(dir, r.Given)
}

// KeepRecord has a state directory remember where its record is from now on: in a
// database, given as in RecordVariable, or in the directory where nothing is given.
func KeepRecord(dir Dir, given string) error {
	path := recordNote(dir.path)
	if given == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDirectory(dir.path)
	}
	kept := keptRecord{Format: recordFormat, Location: given}
	if _, is := experiment.ParseReference(given); !is {
		kept.Secret = record.Secret(given)
	}
	if kept.Secret {
		kept.Location = record.Redacted(given)
	}
	content, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return replace(path, string(content)+"\n")
}

// replace writes a file whole, or leaves it as it is.
func replace(path, content string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}
