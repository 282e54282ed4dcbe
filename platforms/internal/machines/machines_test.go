package machines_test

import (
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/trial"
)

func TestEverythingThatAMachineKnowsOfAJobIsTold(t *testing.T) {
	gpus := 2
	told := machines.Job(platforms.Job{
		Key: trial.Key{Experiment: "abcdefgh", Sequence: 3, Attempt: 1}, Workspace: platforms.Workspace{Directory: "/code", Hash: "0123"},
		Command: "train", Parameter: []byte("{}"), Parameters: trial.Parameters("{}"), Directory: "/experiment", EnvironmentFile: "/environment",
		MaxDuration: time.Hour, Grace: time.Second, LogLimit: 1 << 20, GPUs: &gpus, Storage: &trial.SharedStorage{}, TrialModule: trial.ModuleAuto,
	})
	requireFull(t, told)
	requireFull(t, told.Workspace)
}

func TestEverythingThatAMachineSaysOfARunIsReported(t *testing.T) {
	said := machine.Report{
		Key: trial.Key{Experiment: "abcdefgh"}, Phase: machine.Exited, Reason: trial.Reason{Code: "x"}, Started: time.Now(), Ended: time.Now(),
		Exit: &trial.Exit{Code: 3}, Intent: &trial.Intent{Cause: trial.CauseUser}, Output: "/here",
	}
	requireFull(t, said)
	report, from := reflect.ValueOf(machines.Report(said)), reflect.ValueOf(said)
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		require.EqualValues(t, fmt.Sprint(from.Field(i)), fmt.Sprint(report.FieldByName(name)), name)
	}
}

// requireFull fails where a field of a struct is not set.
func requireFull(t *testing.T, of any) {
	value := reflect.ValueOf(of)
	for i := range value.NumField() {
		require.False(t, value.Field(i).IsZero(), "%T.%s", of, value.Type().Field(i).Name)
	}
}

func TestAMachinesWordsAreThoseOfTheContract(t *testing.T) {
	for said, want := range map[machine.Phase]platforms.Phase{
		machine.Absent: platforms.Absent, machine.Waiting: platforms.Waiting, machine.Running: platforms.Running,
		machine.Exited: platforms.Exited, machine.Lost: platforms.Lost, machine.Unreachable: platforms.Unreachable,
	} {
		got := machines.Report(machine.Report{Phase: said}).Phase
		require.Equal(t, want, got)
		require.Equal(t, said.Definite(), got.Definite())
	}
	for said, want := range map[machine.Code]platforms.Code{
		machine.Invalid: platforms.Invalid, machine.NotFound: platforms.NotFound,
		machine.Exhausted: platforms.Exhausted, machine.Transient: platforms.Transient,
	} {
		require.Equal(t, want, platforms.CodeOf(machines.Error(machine.Errorf(said, "submit", "no"))))
	}
}

func TestAMachinesErrorKeepsItsWordsAndItsPause(t *testing.T) {
	full := &machine.Error{Code: machine.Exhausted, Verb: "submit", After: time.Minute, Err: errors.New("all GPUs are taken")}
	err := machines.Error(full)
	require.EqualError(t, err, "submit: all GPUs are taken")
	require.Equal(t, time.Minute, platforms.AfterOf(err))
	require.True(t, platforms.NoRoom(err))
	err = machines.Fault("submit", fmt.Errorf("end attempt 1: %w", full))
	require.True(t, platforms.NoRoom(err))
	require.ErrorContains(t, err, "end attempt 1: submit: all GPUs are taken")
}

func TestWhatAMachineDidNotClassifyGetsACode(t *testing.T) {
	require.NoError(t, machines.Fault("poll", nil))
	require.Equal(t, platforms.Exhausted, platforms.CodeOf(machines.Fault("prepare", syscall.ENOSPC)))
	denied := platforms.Errorf(platforms.Denied, "prepare", "no")
	require.Equal(t, denied, machines.Fault("submit", denied))
	plain := errors.New("plain")
	require.Equal(t, plain, machines.Error(plain))
}
