package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/starter/progress"
)

// leftover is what a place has of an experiment that this home's record does not know.
type leftover struct {
	Place string `json:"place"`
	platforms.Leftover
	Ours bool `json:"ours"` // made by this home
	from placeOf
}

// placeOf opens where the runs of a section are.
type placeOf struct {
	id       string // of the experiment, empty for a file's
	platform experiment.Platform
}

// leftovers prints what clusters have of experiments that are on no record here, and
// removes what this home made of it where that is wanted.
func (w World) leftovers(ctx context.Context, files []string, as format, remove, sure bool) error {
	_, places, err := w.placesOf(ctx, files)
	if err != nil {
		return err
	}
	found, failed := w.findLeftovers(ctx, places)
	if found, err = w.unknown(ctx, found); err != nil {
		return err
	}
	if err := w.print(as, found, func() [][]string { return w.leftoverRows(found) }); err != nil || !remove {
		return errors.Join(err, failed)
	}
	ours := slices.DeleteFunc(found, func(l leftover) bool { return !l.Ours })
	if len(ours) == 0 {
		return failed
	}
	if err := w.consent("What this home made of it will be gone for ever.", "what this home made", sure); err != nil {
		return err
	}
	return errors.Join(w.removeLeftovers(ctx, ours), failed)
}

// unknown leaves out what is of experiments on record. The record is read after the
// places were: whatever is begun is on record first.
func (w World) unknown(ctx context.Context, found []leftover) ([]leftover, error) {
	known, _, err := w.placesOf(ctx, nil)
	return slices.DeleteFunc(found, func(l leftover) bool { return known[l.Experiment] }), err
}

// placesOf returns the ids of the experiments on record, and the sections to ask: those
// of the files, or else of all experiments.
func (w World) placesOf(ctx context.Context, files []string) (known map[string]bool, places []placeOf, err error) {
	known = map[string]bool{}
	err = w.read(ctx, func(r reader) error {
		all, err := r.Experiments(ctx)
		for _, e := range all {
			known[e.ID] = true
			var config experiment.Experiment
			if broken := json.Unmarshal(e.Config, &config); broken != nil {
				return broken
			}
			for _, platform := range config.Platforms {
				places = append(places, placeOf{e.ID, platform})
			}
		}
		return err
	})
	if errors.Is(err, errNone) {
		err = nil // a home without a record knows of no experiment
	}
	if err == nil && len(files) > 0 {
		places, err = w.placesIn(files)
	}
	return known, places, err
}

func (w World) placesIn(files []string) (places []placeOf, err error) {
	for _, file := range files {
		config, err := w.load(file)
		if err != nil {
			return nil, err
		}
		for _, platform := range config.Platforms {
			places = append(places, placeOf{platform: platform})
		}
	}
	return places, nil
}

// findLeftovers asks each place once, however many sections name it. One that cannot be
// asked is named and left out.
func (w World) findLeftovers(ctx context.Context, places []placeOf) ([]leftover, error) {
	found, asked, failed := []leftover{}, map[string]bool{}, error(nil)
	for _, at := range places {
		section, err := json.Marshal(at.platform)
		if err != nil {
			return nil, err
		}
		if asked[string(section)] {
			continue
		}
		asked[string(section)] = true
		there, err := w.leftoversAt(ctx, at)
		if err != nil {
			fmt.Fprintf(w.Err, "%s: %v\n", at.platform.Name, err)
			failed = exit(ExitNoSuccess)
			continue
		}
		if asked[there.Place] {
			continue
		}
		asked[there.Place] = true
		if there.Unlisted != nil {
			fmt.Fprintf(w.Err, "%s: you may not list %s there: more of that may be left\n", there.Place, strings.Join(there.Unlisted, ", "))
		}
		for _, one := range there.Found {
			found = append(found, leftover{there.Place, one, platforms.SameHome(one.Home, w.Engine.Mark()), at})
		}
	}
	return found, failed
}

// leftoversAt returns nothing of a platform that cannot list what it made.
func (w World) leftoversAt(ctx context.Context, at placeOf) (there platforms.Leftovers, err error) {
	err = w.Engine.Place(at.id, at.platform, func(place platforms.WithLeftovers) (err error) {
		there, err = place.Leftovers(ctx)
		return err
	})
	return there, err
}

func (w World) leftoverRows(found []leftover) [][]string {
	if len(found) == 0 {
		return [][]string{{"nothing is left of experiments that are not on record here"}}
	}
	rows := [][]string{{"EXPERIMENT", "MADE BY", "SINCE", "WHAT", "WHERE"}}
	for _, l := range found {
		by := "another home: " + l.Home
		switch {
		case l.Ours:
			by = "this home"
		case l.Home == "":
			by = "a home unknown"
		}
		var things []string
		for _, kind := range slices.Sorted(maps.Keys(l.Things)) {
			things = append(things, fmt.Sprintf("%d %s", l.Things[kind], kind))
		}
		rows = append(rows, []string{l.Experiment, by, progress.Span(w.Now().Sub(l.Since)) + " ago", strings.Join(things, ", "), l.Place})
	}
	return rows
}

func (w World) removeLeftovers(ctx context.Context, ours []leftover) error {
	ours, err := w.unknown(ctx, ours) // the question may have stood for long
	if err != nil {
		return err
	}
	for _, l := range ours {
		remove := func(place platforms.WithLeftovers) error { return place.RemoveLeftover(ctx, l.Experiment) }
		if err := w.Engine.Place(l.from.id, l.from.platform, remove); err != nil {
			return err
		}
		fmt.Fprintf(w.Err, "%s: removed\n", l.Experiment)
	}
	return nil
}
