// Package logstore is the append-only log of a terminal session: one writer,
// any number of readers in other processes that the writer knows nothing of.
// The log is the only way output leaves the process that owns the terminal.
//
// It uses the standard library alone and never imports any package of agentmux:
// the longest-lived process links it. It never interprets what a program
// printed, never compresses, never deletes a segment; sealed segments,
// keyframes, transcripts and retention are the work of logstore/seal.
//
// # Directory
//
// A log is a directory of segments. A raw segment is named by its base, 16
// lower-case hex digits, and ".seg". A position counts the bytes of the raw
// segments in order, headers included, from 0 at the session's first: it is
// base + offset in the file. It never goes back and is what clients remember.
// The next base is this one plus the length of the good frames, so the list of
// names proves the chain; a hole is a segment that was removed. "<base>.sgz",
// ".key" and ".txt" are derived from a segment. ".seg.tmp" is one that is not
// published yet: a segment gets its name by rename when header and first frame
// are in it. Only the holder of the session's lock, which is not in this
// directory, may write.
//
// # Segment header
//
// All numbers are little-endian, all checksums CRC-32C. crc(seed, bytes) is
// the checksum continued from seed.
//
//	offset size
//	     0    8  89 41 4D 4C 0D 0A 1A 0A
//	     8    2  major = 1; readers refuse a greater one
//	    10    2  minor = 0; readers ignore what they don't know
//	    12    2  flags: 1 first segment of a run, 2 the one before has no proper end
//	    14    2  run, from 1
//	    16   16  session id
//	    32    8  base position
//	    40    8  wall time of creation, ns since 1970, signed
//	    48    8  session time of creation, us
//	    56    4  salt, random, not 0
//	    60    4  crc(0, bytes 0..59); in this place in every major version
//
// Session time counts microseconds from the session's first segment on, by a
// clock that goes on during suspend, never decreasing, also from run to run
// (by the wall clock if the machine was restarted in between).
//
// # Frame
//
// Frames follow the header without padding and never cross segments.
//
//	offset size
//	     0    4  crc(salt, bytes 4..19 and the payload)
//	     4    3  payload length, at most 1048576
//	     7    1  type: 1..127 critical, 128..255 may be skipped, 0 never valid
//	     8    1  FB
//	     9    1  flags: 1 made by agentmux, not by a program
//	    10    6  session time, us
//	    16    4  low 32 bits of the frame's position
//
// A reader checks length, type, marker and position, then the checksum. The
// position and the salt make frames that lie in the wrong place (a log printed
// inside a session, even inside its own) invalid, and the position is what a
// reader finds its feet by behind damage.
//
//	  1  OUT      bytes the program printed; may end inside a character or an escape
//	  2  IN       u32 client, u32 length, the bytes only if input is recorded
//	  3  SIZE     u16 cols, u16 rows, u16 x pixels, u16 y pixels, u32 client
//	  4  META     JSON about the run
//	  5  EXIT     u8 kind (0 code, 1 signal, 2 unknown), u8 core, u16 code, i64 wall ns, rusage as JSON
//	  6  GAP      u8 cause, 3 zero, u32 errno, u64 bytes, u64 reads, u64 first us, u64 last us
//	  7  END      u64 next base, u8 reason (1 size, 2 age, 3 exit, 4 asked); last frame of a segment
//	128  CLOCK    i64 wall ns, u64 boot clock us, u64 monotonic us, 16 bytes boot id
//	129  MARK     JSON, reserved
//	130  DURABLE  u64 position below which all was synced when this was written
//	131  KEY      reserved
//
// The first frame of every segment is CLOCK; more follow each minute with
// output, after a suspend and after a jump of the wall clock by a second. A
// clock reading belongs to the session time of its frame. DURABLE goes out with
// the next frame after a sync, not by itself. Causes of GAP: 1 no space,
// 2 quota, 3 I/O error, 4 read-only, 5 file size limit, 6 other, 7 stuck. GAP
// stands before the first frame that was written after the loss.
//
// # Writing
//
// Frames leave in one write(2) with O_APPEND. A new writer never touches an old
// segment: it opens the next one, at the end of what is good in the newest. What
// is behind that end is a torn tail if it is the start of a frame, and the new
// base is where that starts; otherwise it is damage, and the new base is the end
// of the file, so that no position is used twice. Disk space for 64 KiB beyond
// what is needed is reserved (fallocate, size kept) before each write of
// output; when that fails nothing is written, and GAP, EXIT and END use the
// reserve. If a write is short, the file is cut back to its last good frame.
//
// # Reading
//
// The kernel raises a file's size after it has copied the bytes, so a reader
// sees a prefix of what was written: less than a frame at the end of the file
// means "wait" while the writer lives and "torn" when it is gone; a whole frame
// with a wrong sum means damage. What there is to answer besides frames:
// ErrNotYet, ErrEnded, ErrLost, *DamageError, *VersionError, ErrNotOurs,
// *TrimmedError.
package logstore
