// Package wire is the control protocol between the server and its clients:
// envelope, hello, messages, error codes.
//
// It imports session and msgpack and must never import anything else of
// agentmux. It knows no socket: it reads from and writes to what it is given,
// so that the same bytes travel over a Unix socket or an ssh connection.
//
// # Envelope
//
//	u32 length of the payload, little-endian | u8 type | payload
//
// The payload is a msgpack map with short string keys, at most 16 MiB. A field
// that is missing has its zero value, a field that is not known is ignored, a
// type that is not known is skipped.
//
//	type  name      from    payload
//	   1  Hello     both    preceded by the preamble, once
//	   2  Request   client  id, method, parameters
//	   3  Response  server  id of the request, error or result
//	   4  Notice    server  unasked; only after an attach
//
// # Hello
//
// Each side begins with the preamble of 8 bytes and a Hello. What comes before
// the preamble is skipped, up to 64 KiB: a login shell at the other end of an
// ssh connection may print a banner first. The version spoken is the highest
// that both know; without one the connection ends with an error that says
// which side is older.
//
// # For ever
//
// The methods list, kill, detach and version, with the fields that they have
// here, are understood by every later server and client.
package wire
