package metrics

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The golden bytes were recorded from a trial that ran under NNI's own SDK,
// releases 1.9, 2.10 and 3.0.
const (
	goldenStdout = `NNISDK_MEb'{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "PERIODICAL", "sequence": 0, "value": "0.5"}'
NNISDK_MEb'{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "PERIODICAL", "sequence": 1, "value": "{\"default\": 0.25, \"a\": \"it's\"}"}'
NNISDK_MEb'{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "FINAL", "sequence": 0, "value": "NaN"}'
`
	goldenFile = `ME000098{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "PERIODICAL", "sequence": 0, "value": "0.5"}
ME000131{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "PERIODICAL", "sequence": 1, "value": "{\"default\": 0.25, \"a\": \"it's\"}"}
ME000093{"parameter_id": 7, "trial_job_id": "AbCdE", "type": "FINAL", "sequence": 0, "value": "NaN"}
`
)

func golden() []Record {
	return []Record{
		{Kind: Periodical, Step: 0, Value: `0.5`},
		{Kind: Periodical, Step: 1, Value: `{"default": 0.25, "a": "it's"}`},
		{Kind: Final, Step: 0, Value: `NaN`},
	}
}

func TestStdoutGoldenBytesAreRead(t *testing.T) {
	var lines Lines
	require.Equal(t, golden(), lines.Feed([]byte(goldenStdout)))
	require.Empty(t, lines.End())
}

func TestFileGoldenBytesAreRead(t *testing.T) {
	var frames Frames
	require.Equal(t, golden(), frames.Feed([]byte(goldenFile)))
	require.Empty(t, frames.End())
}

type parser interface {
	Feed([]byte) []Record
	End() []Record
}

func feedInPieces(t *rapid.T, p parser, data []byte) []Record {
	var records []Record
	for len(data) > 0 {
		size := rapid.IntRange(1, len(data)).Draw(t, "size")
		records = append(records, p.Feed(data[:size])...)
		data = data[size:]
	}
	return append(records, p.End()...)
}

func TestWhereReadsAreSplitMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		require.Equal(t, golden(), feedInPieces(t, &Lines{}, []byte(goldenStdout)))
		require.Equal(t, golden(), feedInPieces(t, &Frames{}, []byte(goldenFile)))
	})
}

func readLines(text string) []Record {
	var lines Lines
	return append(lines.Feed([]byte(text)), lines.End()...)
}

func readFrames(text string) []Record {
	var frames Frames
	return append(frames.Feed([]byte(text)), frames.End()...)
}

func TestAMetricIsFoundWhereverItStandsInALine(t *testing.T) {
	const metric = `NNISDK_MEb'{"type": "FINAL", "sequence": 0, "value": "1"}'`
	final := []Record{{Kind: Final, Value: "1"}}
	for name, text := range map[string]string{
		"after a progress bar":    "\r 99% |####| " + metric + "\n",
		"before other text":       metric + " it's done\n",
		"without newline":         "epoch 3\n" + metric,
		"after carriage return":   "a\r" + metric + "\r\n",
		"after half a mark":       "NNISDK_ME NNISDK_" + metric,
		"our own after text":      "  3/3 perennial: final 1\n",
		"our own with DOS ending": "perennial: final 1\r\n",
		"our own before a bar":    "perennial: final 1\r 100%\n",
		"our own without newline": "perennial: final   1  ",
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, final, readLines(text)) })
	}
}

func TestTwoMetricsOnOneLineAreBothRead(t *testing.T) {
	one := `NNISDK_MEb'{"type": "PERIODICAL", "sequence": 4, "value": "\"it's\""}'`
	two := `NNISDK_MEb'{"type": "FINAL", "sequence": 0, "value": "2"}'`
	require.Equal(t, []Record{{Kind: Periodical, Step: 4, Value: `"it's"`}, {Kind: Final, Value: "2"}}, readLines(one+two))
}

func TestAMarkedLineThatIsNoMetricIsReported(t *testing.T) {
	for _, text := range []string{
		`NNISDK_MEb'{"type": "FINAL", "sequence": 0, "value": "1"`,
		`NNISDK_MEb'{"type": "FINAL", "sequence": 0, "value": "1"}`,
		`NNISDK_MEb'{"type": "OTHER", "sequence": 0, "value": "1"}'`,
		`NNISDK_MEb'{"type": "FINAL", "sequence": 0, "value": "no json"}'`,
		`NNISDK_MEb'{"type": "FINAL", "sequence": 0}'`,
		`perennial: final {`,
		`perennial: final`[:16] + " ",
		`perennial: intermediate 0.5 apples`,
	} {
		require.Equal(t, []Record{{Kind: Unreadable, Value: text}}, readLines(text+"\n"), text)
	}
}

func TestAMetricAfterABrokenOneIsStillRead(t *testing.T) {
	records := readLines(`NNISDK_MEb'{"typeNNISDK_MEb'{"type": "FINAL", "sequence": 0, "value": "2"}'`)
	require.Equal(t, []Record{{Kind: Unreadable, Value: `NNISDK_MEb'{"type`}, {Kind: Final, Value: "2"}}, records)
}

func TestAskingForParametersIsNoMetric(t *testing.T) {
	require.Empty(t, readLines(`NNISDK_MEb'{"trial_job_id": "a", "type": "REQUEST_PARAMETER", "sequence": 0, "parameter_index": 0}'`))
}

func TestOurOwnIntermediatesAreCounted(t *testing.T) {
	require.Equal(t, []Record{
		{Kind: Periodical, Step: 0, Value: "0.1"},
		{Kind: Periodical, Step: 1, Value: `{"default": NaN}`},
		{Kind: Final, Value: "-Infinity"},
	}, readLines("perennial: intermediate 0.1\nnoise\nperennial: intermediate {\"default\": NaN}\nperennial: final -Infinity\n"))
}

func TestTheLargestMetricIsReadOnEveryChannel(t *testing.T) {
	head, tail := `{"type": "FINAL", "sequence": 0, "value": "\"`, `\""}`
	letters := strings.Repeat("x", MaxBytes-1-len(head)-len(tail))
	json := head + letters + tail
	want := []Record{{Kind: Final, Value: `"` + letters + `"`}}
	require.Equal(t, want, readFrames("ME999999"+json+"\n"))
	require.Equal(t, want, readLines("bar "+stdoutMark+json+"' it's\n"))
}

func TestALineWithoutMarkIsNotKept(t *testing.T) {
	var lines Lines
	for range 100 {
		require.Empty(t, lines.Feed([]byte(strings.Repeat("x", 1<<16))))
	}
	require.Less(t, len(lines.pending), 100)
	require.Equal(t, []Record{{Kind: Final, Value: "3"}}, lines.Feed([]byte("perennial: final 3\n")))
}

func TestAMarkedLineThatNeverEndsIsGivenUp(t *testing.T) {
	var lines Lines
	var records []Record
	lines.Feed([]byte("perennial: final "))
	for range 100 {
		records = append(records, lines.Feed([]byte(strings.Repeat("1", 1<<16)))...)
	}
	require.Len(t, records, 1)
	require.Equal(t, Unreadable, records[0].Kind)
	require.Regexp(t, `^perennial: final 1{83}… \(at least \d{7} bytes, and 999999 is the most that a metric may have\)$`, records[0].Value)
}

func TestNumbersOfOurOwnLinesMayBeSpelledAsLanguagesPrintThem(t *testing.T) {
	for text, want := range map[string]string{
		"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity",
		"-nan": "NaN", "+Inf": "Infinity", "NAN": "NaN", "-INFINITY": "-Infinity",
		".5": "0.5", "-.25": "-0.25", "1.": "1", "+2": "2", "007": "7", "1.E3": "1000", ".5e-9": "5e-10",
		"5.0": "5.0", "1e400": "1e400", "true": "true", `"nan"`: `"nan"`, "[1, nan]": "[1, NaN]",
		`{"default": .5, "loss": nan, "note": "is nan, .5 or -inf", "x": [-inf, true]}`: `{"default": 0.5, "loss": NaN, "note": "is nan, .5 or -inf", "x": [-Infinity, true]}`,
	} {
		require.Equal(t, []Record{{Kind: Final, Value: want}}, readLines("perennial: final "+text+"\n"), text)
	}
	for _, text := range []string{"abc", "nano", "in", "infin", "1.2.3", "0x10", "1e", "--1", "1 2", "None", "{'default': 1}", "tensor(0.5)", "0,5", "nan%", `{"default": nan`} {
		require.Equal(t, []Record{{Kind: Unreadable, Value: "perennial: final " + text}}, readLines("perennial: final "+text+"\n"), text)
	}
}

func TestFramesAroundGarbageAreRead(t *testing.T) {
	frame := func(value string) string {
		return map[string]string{
			"1": "ME000054" + `{"type": "PERIODICAL", "sequence": 0, "value": "1.1"}` + "\n",
			"2": "ME000047" + `{"type": "FINAL", "sequence": 0, "value": "2"}` + "\n",
		}[value]
	}
	one, two := Record{Kind: Periodical, Value: "1.1"}, Record{Kind: Final, Value: "2"}
	lost := func(text string) Record { return Record{Kind: Unreadable, Value: text} }
	for name, c := range map[string]struct {
		text string
		want []Record
	}{
		"noise between":        {frame("1") + "no frame" + frame("2"), []Record{one, lost("no frame"), two}},
		"a frame in a frame":   {frame("1")[:20] + frame("2") + frame("1")[20:], []Record{lost(frame("1")[:20]), two, lost(strings.TrimSpace(frame("1")[20:]))}},
		"zeros of a hole":      {strings.Repeat("\x00", 5000) + frame("2"), []Record{two}},
		"a size of nothing":    {"ME000000" + frame("2"), []Record{lost("ME000000"), two}},
		"a size too large":     {"ME999999" + frame("2"), []Record{lost("ME999999"), two}},
		"a header cut off":     {frame("1") + "ME00", []Record{one, lost("ME00")}},
		"a payload cut off":    {frame("1") + frame("2")[:30], []Record{one, lost(frame("2")[:30])}},
		"a mark in the noise":  {"MEMEME0ME00" + frame("1"), []Record{lost("MEMEME0ME00"), one}},
		"not a metric at all":  {"ME000003{}\n" + frame("2"), []Record{lost("ME000003{}"), two}},
		"text before a header": {"M" + frame("2"), []Record{lost("M"), two}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, readFrames(c.text)) })
	}
}

func TestAFrameIsNotWaitedForOnceItsNewlineCameTooEarly(t *testing.T) {
	var frames Frames
	records := frames.Feed([]byte("ME999999{\"type\nME000047" + `{"type": "FINAL", "sequence": 0, "value": "2"}` + "\n"))
	require.Equal(t, Record{Kind: Final, Value: "2"}, records[len(records)-1])
}

func TestDefaultIsTheNumberATunerIsFed(t *testing.T) {
	for value, want := range map[string]float64{
		"0.5": 0.5, " 5 ": 5, "-1e-3": -0.001, `{"default": 3}`: 3, `{"default": 1, "loss": NaN}`: 1,
		`{"note": "NaN", "default": 2, "x": -Infinity}`: 2,
	} {
		got, ok := Record{Value: value}.Default()
		require.True(t, ok, value)
		require.Equal(t, want, got, value)
	}
}

func TestThereIsNoDefaultWhereThereIsNoFiniteNumber(t *testing.T) {
	for _, value := range []string{
		"NaN", "Infinity", "-Infinity", `{"default": NaN}`, `{"default": -Infinity}`, `{"Default": 1}`, `{"default": "1"}`,
		`"0.5"`, "[1]", "null", "true", "{}", "", "1e999", `{"default": null}`, "nonsense", "1NaN", "0x10",
	} {
		_, ok := Record{Value: value}.Default()
		require.False(t, ok, value)
	}
}

func FuzzFramesAlwaysGoOn(f *testing.F) {
	f.Add([]byte(goldenFile))
	f.Add([]byte("ME000000ME999999{\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var frames Frames
		frames.Feed(data)
		frames.End()
		require.Equal(t, golden(), frames.Feed([]byte(goldenFile)))
	})
}

func FuzzLinesAlwaysGoOn(f *testing.F) {
	f.Add([]byte(goldenStdout))
	f.Add([]byte("perennial: final {NNISDK_MEb'{'"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var lines Lines
		lines.Feed(data)
		lines.End()
		require.Equal(t, golden(), lines.Feed([]byte(goldenStdout)))
	})
}

func FuzzDefaultNeverPanics(f *testing.F) {
	f.Add(`{"default": NaN, "a\"": -Infinity}`)
	f.Add(`"\`)
	f.Fuzz(func(_ *testing.T, value string) { Record{Value: value}.Default() })
}
