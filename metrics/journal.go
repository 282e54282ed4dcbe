package metrics

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// JournalFormat is the number in the head of a journal that this build writes.
// It reads all older ones.
const JournalFormat = 1

const (
	journalHead   = "perennial journal 1\n"
	recordHead    = 8       // length and CRC32C of the JSON that follows, little endian
	longestRecord = 8 << 20 // a metric's JSON can be escaped once more
	reserved      = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of a journal.
var (
	ErrNewerJournal = errors.New("this journal was written by a newer version: install that version to read it")
	ErrNoJournal    = errors.New("this file is no journal of ours")
)

// Journal appends records to a file. Only one process at a time may have it open
// for writing; any number may read meanwhile. It is not safe for concurrent use.
type Journal struct {
	file     *os.File
	end      int64 // after the last whole record
	reserved int64 // disk blocks are ours up to here
	next     int64
}

// OpenJournal opens a journal for appending and makes it where there is none. Half
// a record at its end, left by a crash, is cut off. Room for 1 MiB more is taken
// from the disk at once and held ahead of the writing where the file system can,
// so that a full disk does not take what was promised.
func OpenJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: file, next: 1}
	if err := j.recover(); err != nil {
		file.Close()
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	j.reserve(0)
	return j, nil
}

// recover finds the end and the last number, and cuts what follows.
func (j *Journal) recover() error {
	scan, err := newScan(j.file, 0)
	if errors.Is(err, io.EOF) {
		return j.begin()
	}
	if err != nil {
		return err
	}
	for {
		record, err := scan.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		j.next = record.Number + 1
	}
	j.end = scan.offset
	return j.file.Truncate(j.end)
}

func (j *Journal) begin() error {
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	if _, err := j.file.WriteAt([]byte(journalHead), 0); err != nil {
		return err
	}
	j.end = int64(len(journalHead))
	return nil
}

// Next is the number that the next record gets.
func (j *Journal) Next() int64 { return j.next }

// Append numbers the records and writes them. After an error, such as a full
// disk, none of them is in the journal, and Append may be called again with the
// same records.
func (j *Journal) Append(records []Record) error {
	var block bytes.Buffer
	for i := range records {
		records[i].Number = j.next + int64(i)
		if err := encode(&block, records[i]); err != nil {
			return err
		}
	}
	j.reserve(int64(block.Len()))
	// Half a block that a full disk leaves behind is overwritten by the next
	// try: a cut would give the reserved room back.
	if _, err := j.file.WriteAt(block.Bytes(), j.end); err != nil {
		return err
	}
	j.end += int64(block.Len())
	j.next += int64(len(records))
	return nil
}

func encode(block *bytes.Buffer, record Record) error {
	payload, err := json.Marshal(record)
	if err != nil {
		return err
	}
	var head [recordHead]byte
	binary.LittleEndian.PutUint32(head[:4], uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(payload, castagnoli))
	block.Write(head[:])
	block.Write(payload)
	return nil
}

// reserve keeps disk blocks ahead of the end. That it cannot is found out by
// whoever writes there.
func (j *Journal) reserve(size int64) {
	if j.end+size+reserved/2 <= j.reserved {
		return
	}
	to := j.end + size + reserved
	if allocate(j.file, j.end, to-j.end) == nil {
		j.reserved = to
	}
}

// Removed tells whether somebody deleted the journal's file.
func (j *Journal) Removed() bool {
	info, err := j.file.Stat()
	return err == nil && deleted(info)
}

// Restore writes a whole copy of a journal whose file was deleted to path, and goes
// on there: cursors stay what they were.
func (j *Journal) Restore(path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.NewSectionReader(j.file, 0, j.end))
	if err = errors.Join(err, file.Sync()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	j.file.Close()
	j.file, j.reserved = file, 0
	j.reserve(0)
	return nil
}

// Sync makes everything appended durable.
func (j *Journal) Sync() error { return j.file.Sync() }

// Close makes everything appended durable and gives back the room that was not
// needed.
func (j *Journal) Close() error {
	return errors.Join(j.file.Truncate(j.end), j.file.Sync(), j.file.Close())
}
