package codec_test

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/workers/codec"
)

func places(t *testing.T) codec.Files {
	return codec.In(t.TempDir())
}

func opened(t *testing.T, files codec.Files) *codec.Ring {
	ring, err := codec.Open(files)
	require.NoError(t, err)
	return ring
}

func sealed(t require.TestingT, ring *codec.Ring, payload *commonpb.Payload) *commonpb.Payload {
	encoded, err := ring.Encode([]*commonpb.Payload{payload})
	require.NoError(t, err)
	return encoded[0]
}

func keyOf(payload *commonpb.Payload) string { return string(payload.Metadata["encryption-key-id"]) }

func plain(text string) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(text)}
}

func TestWhateverIsEncryptedComesBackAndCannotBeReadBetween(t *testing.T) {
	ring := opened(t, places(t))
	rapid.Check(t, func(r *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), 12, 200).Draw(r, "data")
		payload := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain"), "type": secret}, Data: secret}
		encoded := sealed(r, ring, payload)
		bytesOnDisk, err := proto.Marshal(encoded)
		require.NoError(r, err)
		require.False(r, bytes.Contains(bytesOnDisk, secret))
		decoded, err := ring.Decode([]*commonpb.Payload{encoded})
		require.NoError(r, err)
		require.True(r, proto.Equal(payload, decoded[0]))
	})
}

func TestWhatIsNotEncryptedPassesThrough(t *testing.T) {
	ring := opened(t, places(t))
	for _, payload := range []*commonpb.Payload{plain(`"stop"`), {}, {Data: []byte("raw")}} {
		decoded, err := ring.Decode([]*commonpb.Payload{payload})
		require.NoError(t, err)
		require.True(t, proto.Equal(payload, decoded[0]))
	}
}

func TestAChangedPayloadOrKeyIDDoesNotOpen(t *testing.T) {
	files := places(t)
	ring := opened(t, files)
	first := sealed(t, ring, plain("x"))
	flipped := proto.CloneOf(first)
	flipped.Data[len(flipped.Data)-1] ^= 1
	_, err := ring.Decode([]*commonpb.Payload{flipped})
	require.ErrorContains(t, err, "does not open with its key")

	other, err := codec.Rotate(files)
	require.NoError(t, err)
	renamed := proto.CloneOf(first)
	renamed.Metadata["encryption-key-id"] = []byte(other)
	_, err = ring.Decode([]*commonpb.Payload{renamed})
	require.ErrorContains(t, err, "does not open with its key")
}

func TestAfterARotationTheNewKeyEncryptsAndTheOldOneStillDecrypts(t *testing.T) {
	files := places(t)
	ring := opened(t, files)
	before := sealed(t, ring, plain("before"))
	id, err := codec.Rotate(files)
	require.NoError(t, err)
	require.NotEqual(t, id, keyOf(before))

	// A running host takes the key up by itself.
	var after *commonpb.Payload
	require.Eventually(t, func() bool {
		after = sealed(t, ring, plain("after"))
		return keyOf(after) == id
	}, 10*time.Second, 50*time.Millisecond)
	decoded, err := opened(t, files).Decode([]*commonpb.Payload{before, after})
	require.NoError(t, err)
	require.Equal(t, "before after", string(decoded[0].Data)+" "+string(decoded[1].Data))

	states, err := files.States()
	require.NoError(t, err)
	require.Equal(t, []codec.State{{ID: keyOf(before), Needed: true}, {ID: id, Needed: true, Encrypts: true}}, states)
}

func TestAClientLearnsAtOnceOfAKeyThatAnotherProcessMade(t *testing.T) {
	files := places(t)
	reader := opened(t, files)
	_, err := codec.Rotate(files)
	require.NoError(t, err)
	_, err = reader.Decode([]*commonpb.Payload{sealed(t, opened(t, files), plain("x"))})
	require.NoError(t, err)
}

func TestKeysMadeAtOnceAreAllOnTheLedger(t *testing.T) {
	files := places(t)
	opened(t, files)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := codec.Rotate(files)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	ids, err := files.IDs()
	require.NoError(t, err)
	require.Len(t, ids, 9)
}

func TestKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	files := places(t)
	opened(t, files)
	require.NoError(t, filepath.WalkDir(files.Keys, func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}

func TestAMissingKeyIsNeverMadeAnew(t *testing.T) {
	files := places(t)
	payload := sealed(t, opened(t, files), plain("x"))
	require.NoError(t, os.RemoveAll(files.Keys))
	for _, open := range []func(codec.Files) (*codec.Ring, error){codec.Open, codec.Read} {
		_, err := open(files)
		var missing *codec.MissingError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, []string{keyOf(payload)}, missing.IDs)
		require.ErrorContains(t, err, "put that file back from a backup")
		database := filepath.Dir(files.Ledger)
		require.ErrorContains(t, err, "mv '"+database+"' '"+database+".lost'")
		require.NoDirExists(t, files.Keys)
	}
	_, err := codec.Rotate(files)
	require.Error(t, err, "nor does a rotation hide the loss")
}

// writeDatabase puts a payload somewhere into a database's file.
func writeDatabase(t *testing.T, files codec.Files, payload *commonpb.Payload) {
	content, err := proto.Marshal(&commonpb.Payloads{Payloads: []*commonpb.Payload{payload}})
	require.NoError(t, err)
	// Across the edge of what is searched at a time.
	content = append(bytes.Repeat([]byte{0}, 1<<20-30), content...)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(files.Ledger), "temporal.db"), content, 0o600))
}

func TestADatabaseThatLostItsLedgerTellsItselfWhatIsMissing(t *testing.T) {
	files := places(t)
	payload := sealed(t, opened(t, files), plain("x"))
	writeDatabase(t, files, payload)
	require.NoError(t, os.Remove(files.Ledger))
	away := files.Keys + ".away"
	require.NoError(t, os.Rename(files.Keys, away))
	_, err := codec.Open(files)
	var missing *codec.MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{keyOf(payload)}, missing.IDs)
	require.NoDirExists(t, files.Keys)

	require.NoError(t, os.Rename(away, files.Keys))
	_, err = opened(t, files).Decode([]*commonpb.Payload{payload})
	require.NoError(t, err)
	ids, err := files.IDs()
	require.NoError(t, err)
	require.Equal(t, keyOf(payload), ids[0], "the ledger knows it again")
}

func TestADatabaseFromBeforeThereWereKeysIsTakenUp(t *testing.T) {
	files := places(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(files.Ledger), 0o700))
	writeDatabase(t, files, plain("an old payload"))
	sealed(t, opened(t, files), plain("x"))
}

func TestADatabaseThatWasMovedAwayMissesNoKey(t *testing.T) {
	files := places(t)
	opened(t, files)
	require.NoError(t, os.RemoveAll(files.Keys))
	require.NoError(t, os.Rename(filepath.Dir(files.Ledger), filepath.Dir(files.Ledger)+".lost"))
	sealed(t, opened(t, files), plain("x"))
}

func TestAKeyWrittenWithoutItsLedgerIsNoLoss(t *testing.T) {
	files := places(t)
	opened(t, files)
	require.NoError(t, os.Remove(files.Ledger)) // as after kill -9 between the two
	sealed(t, opened(t, files), plain("x"))
}

func TestADamagedKeyFileIsNamed(t *testing.T) {
	files := places(t)
	payload := sealed(t, opened(t, files), plain("x"))
	path := filepath.Join(files.Keys, keyOf(payload))
	require.NoError(t, os.WriteFile(path, []byte("soup"), 0o600))
	_, err := codec.Open(files)
	require.ErrorContains(t, err, path+" is no key")
}

func TestMessagesOfFailuresAreEncryptedAndComeBack(t *testing.T) {
	options := opened(t, places(t)).Protect(client.Options{})
	failure := options.FailureConverter.ErrorToFailure(errors.New("the password is swordfish"))
	onDisk, err := proto.Marshal(failure)
	require.NoError(t, err)
	require.NotContains(t, string(onDisk), "swordfish")
	require.ErrorContains(t, options.FailureConverter.FailureToError(failure), "swordfish")
}

func TestTheEndpointDecodesForTheWebUI(t *testing.T) {
	ring := opened(t, places(t))
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: []*commonpb.Payload{sealed(t, ring, plain(`"readable"`)), plain("1")}})
	require.NoError(t, err)
	request := httptest.NewRequest("POST", "/decode", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	ring.Handler().ServeHTTP(answer, request)
	require.Equal(t, 200, answer.Code, answer.Body)
	var decoded commonpb.Payloads
	require.NoError(t, protojson.Unmarshal(answer.Body.Bytes(), &decoded))
	require.Equal(t, `"readable" 1`, string(decoded.Payloads[0].Data)+" "+string(decoded.Payloads[1].Data))
}

func TestAClientWithoutKeysGetsWhatItCannotReadAndNoMore(t *testing.T) {
	options := opened(t, places(t)).Protect(client.Options{})
	payloads, err := options.DataConverter.ToPayloads("for us only")
	require.NoError(t, err)
	var text string
	require.Error(t, converter.GetDefaultDataConverter().FromPayloads(payloads, &text))
	require.NoError(t, options.DataConverter.FromPayloads(payloads, &text))
	require.Equal(t, "for us only", text)
	require.False(t, strings.Contains(payloads.String(), "for us only"))
}

func TestWhoWasGivenTheKeysOfAnotherMachineSealsWithTheNewestOfThem(t *testing.T) {
	first := places(t)
	ring := opened(t, first)
	_, err := codec.Rotate(first)
	require.NoError(t, err)
	secret := sealed(t, opened(t, first), plain("x"))

	second := places(t)
	require.NoError(t, os.CopyFS(second.Keys, os.DirFS(first.Keys)))
	other := opened(t, second)
	require.Equal(t, keyOf(secret), keyOf(sealed(t, other, plain("y"))))
	require.Equal(t, opened(t, first).IDs(), other.IDs())
	files, err := os.ReadDir(second.Keys)
	require.NoError(t, err)
	require.Len(t, files, 2, "no key is made that the other machine lacks")

	older := ring.IDs()[0]
	chosen, err := codec.With(second, older)
	require.NoError(t, err)
	require.Equal(t, older, keyOf(sealed(t, chosen, plain("z"))))
	_, err = codec.With(second, "nobodys")
	require.Error(t, err)
}
