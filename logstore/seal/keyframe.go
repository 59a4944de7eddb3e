package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"agentmux/logstore"
)

// Keyframe is a screen at a position of the log.
type Keyframe struct {
	Session    [16]byte
	Position   logstore.Position
	Cols, Rows int
	// Snapshot brings a new terminal of that size to the screen; Pending is
	// to be written after it, and then the log from Position on.
	Snapshot, Pending []byte
}

const (
	keyVersion = 1
	keyHeader  = 52
	keySuffix  = ".key"
	// maxKeyframe bounds what is read back.
	maxKeyframe = 64 << 20
	// keep is how many keyframes of a log stay: the newest, and one before it
	// in case the newest is damaged.
	keep = 2
)

var keyMagic = [8]byte{0x89, 'A', 'M', 'K', '\r', '\n', 0x1a, '\n'}

// ErrNoKeyframe: the log has none that can be used.
var ErrNoKeyframe = errors.New("no usable keyframe")

// errDamaged is why one file was passed over.
var errDamaged = errors.New("damaged, or of another version or session")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteKeyframe writes k into the log directory dir and removes what is older
// than the one before it.
func WriteKeyframe(dir string, k Keyframe) error {
	path := filepath.Join(dir, fmt.Sprintf("%016x%s", uint64(k.Position), keySuffix))
	f, err := os.CreateTemp(dir, "*"+keySuffix+".tmp")
	if err != nil {
		return fmt.Errorf("write keyframe: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(encode(k))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write keyframe: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write keyframe: %w", err)
	}
	return prune(dir)
}

func encode(k Keyframe) []byte {
	b := append(make([]byte, 0, keyHeader+len(k.Snapshot)+len(k.Pending)), keyMagic[:]...)
	le := binary.LittleEndian
	for _, v := range []int{keyVersion, k.Cols, k.Rows, 0} {
		b = le.AppendUint16(b, uint16(v))
	}
	b = append(b, k.Session[:]...)
	b = le.AppendUint64(b, uint64(k.Position))
	b = le.AppendUint32(b, uint32(len(k.Snapshot)))
	b = le.AppendUint32(b, uint32(len(k.Pending)))
	b = le.AppendUint32(b, 0)
	b = append(append(b, k.Snapshot...), k.Pending...)
	le.PutUint32(b[48:], checksum(b))
	return b
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:48], castagnoli), castagnoli, b[keyHeader:])
}

func decode(b []byte, session [16]byte) (Keyframe, error) {
	le := binary.LittleEndian
	if len(b) < keyHeader || [8]byte(b) != keyMagic || le.Uint16(b[8:]) != keyVersion {
		return Keyframe{}, errDamaged
	}
	snapshot, pending := int(le.Uint32(b[40:])), int(le.Uint32(b[44:]))
	if len(b) != keyHeader+snapshot+pending || le.Uint32(b[48:]) != checksum(b) || [16]byte(b[16:]) != session {
		return Keyframe{}, errDamaged
	}
	return Keyframe{
		Session: session, Position: logstore.Position(le.Uint64(b[32:])),
		Cols: int(le.Uint16(b[10:])), Rows: int(le.Uint16(b[12:])),
		Snapshot: b[keyHeader : keyHeader+snapshot], Pending: b[keyHeader+snapshot:],
	}, nil
}

// NewestKeyframe returns the newest usable keyframe of the log in dir that is
// not beyond the position at, or ErrNoKeyframe.
func NewestKeyframe(dir string, session [16]byte, at logstore.Position) (Keyframe, error) {
	names, err := keyframes(dir)
	if err != nil {
		return Keyframe{}, err
	}
	for _, name := range slices.Backward(names) {
		k, err := read(filepath.Join(dir, name), session)
		if err == nil && k.Position <= at {
			return k, nil
		}
	}
	return Keyframe{}, ErrNoKeyframe
}

func read(path string, session [16]byte) (Keyframe, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return Keyframe{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > maxKeyframe {
		return Keyframe{}, errors.Join(err, errDamaged)
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		return Keyframe{}, err
	}
	return decode(data, session)
}

// keyframes returns the names of the keyframe files, oldest first.
func keyframes(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list keyframes: %w", err)
	}
	var names []string
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), keySuffix)
		if !ok || len(digits) != 16 {
			continue
		}
		if _, err := strconv.ParseUint(digits, 16, 64); err == nil {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

func prune(dir string) error {
	names, err := keyframes(dir)
	if err != nil {
		return err
	}
	for len(names) > keep {
		if err := os.Remove(filepath.Join(dir, names[0])); err != nil {
			return fmt.Errorf("remove an old keyframe: %w", err)
		}
		names = names[1:]
	}
	return nil
}
