package metrics

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// batch is about how many bytes of a journal are read at once.
const batch = 4 << 20

// ReadJournal returns the records that follow a cursor, and the cursor after
// them. Cursor 0 is the beginning; others come from an earlier call. It returns
// whole records only, at most about 4 MiB of them, and none where nothing more is
// there at present: also where there is no journal yet. It may run while a
// Journal appends.
func ReadJournal(path string, cursor int64) ([]Record, int64, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cursor, nil
	}
	if err != nil {
		return nil, cursor, err
	}
	defer file.Close()
	records, after, err := readBatch(file, cursor)
	if err != nil {
		return nil, cursor, fmt.Errorf("read journal %s: %w", path, err)
	}
	return records, after, nil
}

func readBatch(file io.ReaderAt, cursor int64) ([]Record, int64, error) {
	s, err := newScan(file, cursor)
	if errors.Is(err, io.EOF) {
		return nil, cursor, nil
	}
	if err != nil {
		return nil, cursor, err
	}
	var records []Record
	for s.offset-cursor < batch {
		record, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, cursor, err
		}
		records = append(records, record)
	}
	return records, s.offset, nil
}

// scan walks over the whole records of a journal.
type scan struct {
	reader  *bufio.Reader
	offset  int64 // after the last whole record
	payload []byte
}

// newScan begins at an offset, 0 for the first record. It returns io.EOF where
// not even the head is whole yet.
func newScan(file io.ReaderAt, offset int64) (*scan, error) {
	if offset == 0 {
		if err := readHead(file); err != nil {
			return nil, err
		}
		offset = int64(len(journalHead))
	}
	section := io.NewSectionReader(file, offset, 1<<62-offset)
	return &scan{reader: bufio.NewReaderSize(section, 64<<10), offset: offset}, nil
}

func readHead(file io.ReaderAt) error {
	head := make([]byte, len(journalHead))
	n, err := file.ReadAt(head, 0)
	if strings.HasPrefix(journalHead, string(head[:n])) && n < len(head) {
		return io.EOF
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(head) == journalHead {
		return nil
	}
	return headError(string(head[:n]))
}

// headError says what is wrong with the head of a journal.
func headError(head string) error {
	word := strings.TrimRight(journalHead, "0123456789\n")
	number, found := strings.CutPrefix(head, word)
	number, _, _ = strings.Cut(number, "\n")
	if format, err := strconv.Atoi(number); found && err == nil && format > JournalFormat {
		return ErrNewerJournal
	}
	return ErrNoJournal
}

// next returns the next whole record, io.EOF where there is none: a record that
// is still being written, or was when the power went, reads like the end.
func (s *scan) next() (Record, error) {
	var record Record
	var head [recordHead]byte
	if _, err := io.ReadFull(s.reader, head[:]); err != nil {
		return record, end(err)
	}
	size := binary.LittleEndian.Uint32(head[:4])
	if size == 0 || size > longestRecord {
		return record, io.EOF
	}
	if err := s.fill(int(size)); err != nil {
		return record, end(err)
	}
	if crc32.Checksum(s.payload, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return record, io.EOF
	}
	if err := json.Unmarshal(s.payload, &record); err != nil {
		return record, fmt.Errorf("at byte %d: %w", s.offset, err)
	}
	s.offset += recordHead + int64(size)
	return record, nil
}

func (s *scan) fill(size int) error {
	if cap(s.payload) < size {
		s.payload = make([]byte, size)
	}
	s.payload = s.payload[:size]
	_, err := io.ReadFull(s.reader, s.payload)
	return err
}

func end(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
