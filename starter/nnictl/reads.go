package nnictl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/dashboard"
	"github.com/perennial-ml/perennial/dashboard/views"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/spf13/cobra"
)

// answer is an HTTP answer that stays in this process.
type answer struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) { a.code = code }

// told reads what NNI's manager would answer about an experiment, from the record.
func (n *nnictl) told(ctx context.Context, id, path string, into any) error {
	store, err := n.OpenRecord()
	if err != nil {
		return err
	}
	defer store.Close()
	routes := dashboard.NNI(dashboard.NNIOptions{Options: dashboard.Options{Reader: views.Reader{Store: store}}, Experiment: id, Home: n.Home})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/nni"+path, nil)
	if err != nil {
		return err
	}
	said := &answer{header: http.Header{}}
	if routes.ServeHTTP(said, request); said.code >= http.StatusBadRequest {
		return errors.New(strings.TrimSpace(said.String()))
	}
	numbers := json.NewDecoder(said)
	numbers.UseNumber() // which keep their spelling
	return numbers.Decode(into)
}

// object is a JSON object whatever its keys.
type object = map[string]any

// NNI's spellings of times, in JSON and in lists.
const (
	jsonTimes = "2006/01/02 15:04:05"
	listTimes = "2006-01-02 15:04:05"
)

// dated turns the times of an object into a spelling of them.
func dated(o object, layout string) object {
	for _, key := range []string{"startTime", "endTime"} {
		if stamp, is := o[key].(json.Number); is {
			milliseconds, _ := stamp.Int64() // the routes give whole ones
			o[key] = time.UnixMilli(milliseconds).Format(layout)
		}
	}
	return o
}

// print writes JSON as nnictl does.
func (n *nnictl) print(value any) error {
	encoder := json.NewEncoder(n.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	return encoder.Encode(value)
}

// about is a command that prints what NNI tells of an experiment.
func (n *nnictl) about(use, short, path string, shape func(object) any) *cobra.Command {
	return &cobra.Command{Use: use + " [ID]", Short: short, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := n.Choose(cmd.Context(), named(args))
			if err != nil {
				return err
			}
			var told object
			if err := n.told(cmd.Context(), chosen.ID, path, &told); err != nil {
				return err
			}
			return n.print(shape(told))
		}}
}

func (n *nnictl) trial() *cobra.Command {
	var id string
	kill := &cobra.Command{Use: "kill [ID] --trial_id TRIAL", Short: "End a trial", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return n.starter(cmd.Context(), slices.Concat([]string{"kill"}, args, []string{id})...)
		}}
	kill.Flags().StringVarP(&id, "trial_id", "T", "", "its `id`")
	required(kill, "trial_id")
	return group("trial", "Trials of an experiment", append(absentOf("trial"), n.trialList(), kill)...)
}

func (n *nnictl) trialList() *cobra.Command {
	var head, tail int
	cmd := &cobra.Command{Use: "ls [ID]", Short: "List trials", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := n.Choose(cmd.Context(), named(args))
			if err != nil {
				return err
			}
			list := []object{}
			if err := n.told(cmd.Context(), chosen.ID, "/trial-jobs", &list); err != nil {
				return err
			}
			for _, job := range list {
				dated(job, jsonTimes)
			}
			return n.print(best(list, head, tail))
		}}
	cmd.Flags().IntVar(&head, "head", 0, "only so many, those with the highest metric")
	cmd.Flags().IntVar(&tail, "tail", 0, "only so many, those with the lowest metric")
	cmd.MarkFlagsMutuallyExclusive("head", "tail")
	return cmd
}

// best are the trials with the highest or the lowest results, all where neither is asked for.
func best(list []object, head, tail int) []object {
	if head == 0 && tail == 0 {
		return list
	}
	list = slices.DeleteFunc(list, func(job object) bool { _, reported := result(job); return !reported })
	slices.SortStableFunc(list, func(a, b object) int {
		one, _ := result(a)
		other, _ := result(b)
		if head > 0 {
			one, other = other, one
		}
		return cmp.Compare(one, other)
	})
	return list[:min(len(list), max(head, tail))]
}

// result is the number that a trial is judged by. NNI's routes have it as JSON within JSON.
func result(job object) (float64, bool) {
	finals, _ := job["finalMetricData"].([]any)
	if len(finals) == 0 {
		return 0, false
	}
	data, _ := finals[0].(object)["data"].(string)
	var text string
	if json.Unmarshal([]byte(data), &text) != nil {
		return 0, false
	}
	var number float64
	if json.Unmarshal([]byte(text), &number) == nil {
		return number, true
	}
	var several struct{ Default *float64 }
	if json.Unmarshal([]byte(text), &several) != nil || several.Default == nil {
		return 0, false
	}
	return *several.Default, true
}

func (n *nnictl) experiment() *cobra.Command {
	return group("experiment", "Experiments", append(absentOf("experiment"),
		n.about("show", "Show an experiment", "/experiment", func(told object) any { return dated(told, jsonTimes) }),
		n.about("status", "Show an experiment's status", "/check-status", func(told object) any { return told }),
		n.list(), n.delete(), n.export())...)
}

func (n *nnictl) list() *cobra.Command {
	var all bool
	cmd := &cobra.Command{Use: "list", Short: "List experiments that run", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := n.experiments(cmd.Context(), func(e record.Experiment) bool { return all || e.Status != record.Stopped })
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, e := range found {
				if err := n.describe(cmd.Context(), &text, e.ID); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(n.Out, "%s\n                Experiment information\n%s\n%s\n\n", line, text.String(), line)
			return err
		}}
	cmd.Flags().BoolVar(&all, "all", false, "stopped ones too")
	return cmd
}

var line = strings.Repeat("-", 88)

// describe writes a line of NNI's list about an experiment.
func (n *nnictl) describe(ctx context.Context, text *strings.Builder, id string) error {
	about, err := n.metadata(ctx, id)
	fmt.Fprintf(text, "Id: %s    Name: %s    Status: %s    Port: %s    Platform: %s    StartTime: %s    EndTime: %s\n", id, about["experimentName"],
		about["status"], n.portName(id), about["platform"], about["startTime"], about["endTime"])
	return err
}

// metadata is an entry of NNI's list, with its times as they are printed.
func (n *nnictl) metadata(ctx context.Context, id string) (object, error) {
	var about object
	err := n.told(ctx, id, "/experiment-metadata", &about)
	return dated(about, listTimes), err
}

// portName is how a list has a port.
func (n *nnictl) portName(id string) string {
	if port := n.portOf(id); port > 0 {
		return fmt.Sprint(port)
	}
	return "N/A"
}

// experiments are those on record that are wanted, the newest first.
func (n *nnictl) experiments(ctx context.Context, wanted func(record.Experiment) bool) (list []record.Experiment, err error) {
	store, err := n.OpenRecord()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	all, err := store.Experiments(ctx)
	for _, e := range all {
		if wanted(e) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, views.NewestFirst)
	return list, err
}

func (n *nnictl) export() *cobra.Command {
	var kind, file string
	var intermediate bool
	cmd := &cobra.Command{Use: "export [ID] --type json|csv --filename FILE", Short: "Write results to a file", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			words := slices.Concat([]string{"export"}, args, []string{"--format", kind, "--file", file})
			if intermediate {
				words = append(words, "--intermediate")
			}
			return n.starter(cmd.Context(), words...)
		}}
	cmd.Flags().StringVarP(&kind, "type", "t", "", "json or csv")
	cmd.Flags().StringVarP(&file, "filename", "f", "", "the `file`")
	cmd.Flags().BoolVarP(&intermediate, "intermediate", "i", false, "add what trials reported on the way")
	required(cmd, "type")
	required(cmd, "filename")
	return cmd
}

func (n *nnictl) webui() *cobra.Command {
	url := &cobra.Command{Use: "url [ID]", Short: "Print a link to an experiment's page", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := n.Choose(cmd.Context(), named(args))
			if err != nil {
				return err
			}
			return n.tellPage(cmd.Context(), chosen.ID)
		}}
	return group("webui", "The pages", append(absentOf("webui"), url)...)
}

func (n *nnictl) config() *cobra.Command {
	return group("config", "An experiment's configuration",
		n.about("show", "Show an experiment's configuration", "/experiment", func(told object) any { return told["params"] }))
}

func (n *nnictl) log() *cobra.Command {
	return group("log", "Logs", n.hostLog("stdout"), n.hostLog("stderr"), n.trialLog())
}

// hostLog prints the log of the host, which is what NNI's manager is here; it has but one.
func (n *nnictl) hostLog(name string) *cobra.Command {
	var head, tail int
	var path bool
	cmd := &cobra.Command{Use: name + " [ID]", Short: "Print the host's log", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := n.Engine.Ensure(cmd.Context())
			if err != nil || path {
				return errors.Join(err, printed(n.World, host.Log))
			}
			content, err := os.ReadFile(host.Log)
			if err != nil {
				return err
			}
			return printed(n.World, cut(strings.TrimSuffix(string(content), "\n"), head, tail))
		}}
	cmd.Flags().IntVarP(&head, "head", "H", 0, "only so many lines, the first")
	cmd.Flags().IntVarP(&tail, "tail", "T", 0, "only so many lines, the last")
	cmd.Flags().BoolVar(&path, "path", false, "print where it is")
	return cmd
}

func printed(world command.World, text string) error {
	_, err := fmt.Fprintln(world.Out, text)
	return err
}

// cut leaves the first or the last lines of a text, all of it where neither is asked for.
func cut(text string, head, tail int) string {
	lines := strings.Split(text, "\n")
	switch {
	case head > 0:
		lines = lines[:min(head, len(lines))]
	case tail > 0:
		lines = lines[max(0, len(lines)-tail):]
	}
	return strings.Join(lines, "\n")
}

func (n *nnictl) trialLog() *cobra.Command {
	var id string
	cmd := &cobra.Command{Use: "trial [ID]", Short: "Print where trials' logs are", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := n.Choose(cmd.Context(), named(args))
			if err != nil {
				return err
			}
			var list []object
			if err := n.told(cmd.Context(), chosen.ID, "/trial-jobs", &list); err != nil {
				return err
			}
			return n.tellLogs(list, id)
		}}
	cmd.Flags().StringVarP(&id, "trial_id", "T", "", "only that of this trial")
	return cmd
}

func (n *nnictl) tellLogs(list []object, id string) error {
	found := false
	for _, job := range list {
		if id != "" && job["trialJobId"] != id || job["logPath"] == "" {
			continue
		}
		found = true
		if err := n.say("id:%s path:%s", job["trialJobId"], job["logPath"]); err != nil {
			return err
		}
	}
	if !found && id != "" {
		return fmt.Errorf("trial %q has no log: nnictl trial ls lists the trials", id)
	}
	return nil
}

func (n *nnictl) top() *cobra.Command {
	var seconds int
	cmd := &cobra.Command{Use: "top", Short: "Show the running experiments again and again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seconds < 1 {
				return fmt.Errorf("--time takes a whole number of seconds above 0")
			}
			return n.watch(cmd.Context(), time.Duration(seconds)*time.Second)
		}}
	cmd.Flags().IntVarP(&seconds, "time", "t", 3, "how many `seconds` lie between two pictures")
	return cmd
}

func (n *nnictl) watch(ctx context.Context, pause time.Duration) error {
	for {
		text, err := n.picture(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if n.Width() > 0 {
			text = "\x1b[H\x1b[2J" + text
		}
		if _, err := fmt.Fprint(n.Out, text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return n.say("Exiting...")
		case <-time.After(pause):
		}
	}
}

// picture is what top shows: every experiment that runs, with its trials.
func (n *nnictl) picture(ctx context.Context) (string, error) {
	running, err := n.experiments(ctx, func(e record.Experiment) bool { return e.Status.Active() })
	if err != nil || len(running) == 0 {
		return "There is no experiment running...\n", err
	}
	var text strings.Builder
	for _, e := range running {
		if err := n.draw(ctx, &text, e); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

func (n *nnictl) draw(ctx context.Context, text *strings.Builder, e record.Experiment) error {
	about, err := n.metadata(ctx, e.ID)
	if err != nil {
		return err
	}
	var list []object
	if err := n.told(ctx, e.ID, "/trial-jobs", &list); err != nil {
		return err
	}
	fmt.Fprintf(text, "Id: %s    Status: %s    Port: %s    Platform: %s    \nStartTime: %s    Duration: %s\n", e.ID, about["status"], n.portName(e.ID),
		about["platform"], about["startTime"], e.Driven.Round(time.Second))
	fmt.Fprintf(text, "%s\n%-15s %-25s %-25s %-15s\n%s\n", line, "trialId", "startTime", "endTime", "status", line)
	for _, job := range list {
		dated(job, jsonTimes)
		fmt.Fprintf(text, "%-15v %-25v %-25v %-15v\n", job["trialJobId"], job["startTime"], cmp.Or(job["endTime"], any("N/A")), job["status"])
	}
	fmt.Fprintf(text, "%s\n\n\n", line)
	return nil
}
