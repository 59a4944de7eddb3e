// Package seal makes what is derived from a session's log and may be deleted
// at any time: at present keyframes. The server writes these files, by rename,
// and nobody else does.
//
// It imports logstore and must never import anything of session or pty.
//
// # Keyframes
//
// A keyframe is the screen at one position of the log, as escape sequences, so
// that a screen can be had without reading the log from its beginning. The
// file is called <position, 16 hexadecimal digits>.key, little-endian:
//
//	 0   8  89 41 4D 4B 0D 0A 1A 0A
//	 8   2  version, 1
//	10   2  columns
//	12   2  rows
//	14   2  zero
//	16  16  session id
//	32   8  position
//	40   4  bytes of the snapshot
//	44   4  bytes that the parser holds at that position, unfinished
//	48   4  CRC-32C of bytes 0 to 47 and of all that follows byte 52
//	52      snapshot, then the unfinished bytes
//
// A file that is of another version or session, or damaged, is as good as
// none.
package seal
