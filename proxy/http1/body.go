package http1

import (
	"bytes"
	"io"
)

// Body returns the next piece of the body as it came from the connection, in the Reader's own buffer: it is good until
// the next call. The end is io.EOF, with the last piece or after it. A body that ends early is io.ErrUnexpectedEOF.
func (r *Reader) Body() ([]byte, error) {
	for {
		switch r.body {
		case bodyNone:
			return nil, io.EOF
		case bodyFixed, bodyChunk, bodyUntilClose:
			return r.data()
		case bodySize:
			if err := r.chunkSize(); err != nil {
				return nil, unexpected(err)
			}
		case bodyChunkEnd:
			if err := r.chunkEnd(); err != nil {
				return nil, unexpected(err)
			}
		case bodyTrailer:
			if err := r.readTrailer(); err != nil {
				return nil, unexpected(err)
			}
		}
	}
}

// Ready reports whether Body has something to return without waiting for the connection. Before it waits, what was
// relayed so far should be flushed. It may say false of a piece that is there, never true of one that is not.
func (r *Reader) Ready() bool {
	b := r.buf[r.r:r.w]
	switch r.body {
	case bodyNone:
		return true
	case bodyFixed, bodyChunk, bodyUntilClose:
		return len(b) > 0
	case bodyChunkEnd:
		b = b[min(2, len(b)):]
	case bodyTrailer:
		return false
	}
	end := bytes.IndexByte(b, '\n')
	return end >= 0 && len(b) > end+1 && b[0] != '0'
}

// Done reports whether the whole body was read.
func (r *Reader) Done() bool { return r.body == bodyNone }

// Trailer is the trailer of a chunked body that was read to its end, without the fields that have no place there: see
// [ForbiddenTrailer]. It is good until the next Begin.
func (r *Reader) Trailer() []Field { return r.trailer.Fields }

// Reusable reports whether another request may be sent on the connection: the answer was read to its end, nothing came
// behind it, and neither side asked for the connection to end.
func (r *Reader) Reusable() bool { return r.body == bodyNone && !r.close && r.r == r.w }

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// data returns what is buffered of the body or chunk, reading once if there is nothing.
func (r *Reader) data() ([]byte, error) {
	if r.r == r.w {
		if err := r.fill(bigBuffer); err != nil {
			if r.body != bodyUntilClose {
				return nil, unexpected(err)
			}
			if err == io.EOF {
				r.body = bodyNone
			}
			return nil, err
		}
	}
	piece := r.buf[r.r:r.w]
	if r.body == bodyUntilClose {
		r.r = r.w
		return piece, nil
	}
	if int64(len(piece)) > r.left {
		piece = piece[:r.left]
	}
	r.r += len(piece)
	r.left -= int64(len(piece))
	if r.left > 0 {
		return piece, nil
	}
	if r.body == bodyFixed {
		r.body = bodyNone
		return piece, io.EOF
	}
	r.body = bodyChunkEnd
	return piece, r.plainEnd()
}

const plainEnd = "\r\n0\r\n\r\n"

// plainEnd takes the usual end of a chunked body if it is buffered already, so that the last piece can say that it is the
// last and the answer goes out in one write.
func (r *Reader) plainEnd() error {
	if !bytes.HasPrefix(r.buf[r.r:r.w], []byte(plainEnd)) {
		return nil
	}
	r.r += len(plainEnd)
	r.body = bodyNone
	return io.EOF
}

// chunkSize reads the line before a chunk: hexadecimal digits, then extensions, which mean nothing to us.
func (r *Reader) chunkSize() error {
	next, err := r.line(0, maxLine)
	if err != nil {
		return chunkError(err)
	}
	l := r.buf[r.r : r.r+next-2]
	size, digits := int64(0), 0
	for ; digits < len(l); digits++ {
		d := unhex(l[digits])
		if d < 0 {
			break
		}
		if digits == 15 { // 60 bits; leading zeros count
			return errChunkSize
		}
		size = size<<4 | int64(d)
	}
	if digits == 0 {
		return errChunkSize
	}
	if ext := trim(l[digits:]); len(ext) != len(l)-digits && len(ext) == 0 || len(ext) > 0 && ext[0] != ';' {
		return errChunkSize
	} else if !all(ext, valueByte) {
		return errChunkExt
	}
	r.r += next
	r.excess = max(0, r.excess+int64(next)-16-2*size)
	switch {
	case r.excess > maxExcess:
		return errChunkWaste
	case size == 0:
		r.body = bodyTrailer
	default:
		r.body, r.left = bodyChunk, size
	}
	return nil
}

// chunkError says what the errors of reading a line mean for a chunk.
func chunkError(err error) error {
	switch err {
	case ErrHeadTooBig:
		return errChunkLine
	case errBareLF:
		return errChunkSize
	}
	return err
}

func (r *Reader) chunkEnd() error {
	for r.w-r.r < 2 {
		if err := r.fill(bigBuffer); err != nil {
			return err
		}
	}
	if r.buf[r.r] != '\r' || r.buf[r.r+1] != '\n' {
		return errChunkEnd
	}
	r.r += 2
	r.body = bodySize
	return nil
}

func (r *Reader) readTrailer() error {
	end, err := r.fields(&r.trailer, 0, MaxHead, maxFields)
	if err != nil {
		return err
	}
	r.trailer.assemble(string(r.buf[r.r : r.r+end]))
	r.r += end
	kept := r.trailer.Fields[:0]
	for _, f := range r.trailer.Fields {
		if !ForbiddenTrailer(f.Name) {
			kept = append(kept, f)
		}
	}
	r.trailer.Fields = kept
	r.body = bodyNone
	return nil
}

func unhex(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
