package projection

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrUnusual says that a list is encoded in a way that [ReadList] does not read, although it may be valid.
var ErrUnusual = errors.New("unusual encoding of a list")

// mostOfItem bounds the size of one item of a list, as client-go bounds that of an event.
const mostOfItem = 16 << 20

// ReadList reads a list in protobuf while it arrives, and calls take for each item with what the mask wants of it.
// The item's bytes are valid during the call. However long the list, there is never more of it in memory than one
// item and a small buffer.
func ReadList(r io.Reader, list runtime.TypeMeta, mask *Mask, take func(item []byte) error) (metav1.ListMeta, error) {
	l := &listReader{in: bufio.NewReaderSize(r, 64<<10), left: 1 << 62, mask: mask.root, take: take}
	if err := l.envelope(list); err != nil {
		return metav1.ListMeta{}, fmt.Errorf("read a %s: %w", list.Kind, err)
	}
	return l.meta, nil
}

// listReader reads a list as it arrives, and hands on one masked item after the other. So a long list is
// never whole in memory.
type listReader struct {
	in   *bufio.Reader
	left int64 // bytes until the end of the message that is being read
	// mask is that of the items, and take is given each item when it is masked.
	mask *message
	take func([]byte) error
	meta metav1.ListMeta

	item, masked []byte // used again for each item
}

// envelope reads the magic and the runtime.Unknown with the list in it. A list that is not there is an error, and so is
// one that ends early: a cache must not take it for an empty cluster.
func (l *listReader) envelope(want runtime.TypeMeta) error {
	start, err := l.bytes(int64(len(magic)))
	if err != nil {
		return err
	}
	if string(start) != magic {
		return ErrUnusual
	}
	var is runtime.TypeMeta
	read := false
	for {
		if _, err := l.in.Peek(1); err == io.EOF && read {
			return nil
		}
		number, length, err := l.field()
		switch {
		case err != nil:
			return err
		case number == 1 && !read:
			header, err := l.bytes(length)
			if err != nil {
				return err
			}
			if err := is.Unmarshal(header); err != nil {
				return err
			}
		case number == 2 && !read && is == want:
			if err := l.list(length); err != nil {
				return err
			}
			read = true
		case number > 2 && read:
			if err := l.skip(length); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: field %d of a %s %s", ErrUnusual, number, is.APIVersion, is.Kind)
		}
	}
}

// list reads a list of the given length.
func (l *listReader) list(length int64) error {
	outside := l.left - length
	l.left = length
	for l.left > 0 {
		number, length, err := l.field()
		if err != nil {
			return err
		}
		switch number {
		case 1:
			data, err := l.bytes(length)
			if err != nil {
				return err
			}
			if err := l.meta.Unmarshal(data); err != nil {
				return err
			}
		case 2:
			data, err := l.bytes(length)
			if err != nil {
				return err
			}
			var ok bool
			if l.masked, ok = l.mask.appendTo(l.masked[:0], data); ok {
				data = l.masked
			}
			if err := l.take(data); err != nil {
				return err
			}
		default:
			if err := l.skip(length); err != nil {
				return err
			}
		}
	}
	l.left = outside
	return nil
}

// field reads the tag and the length of a field. Lists and their envelope have no others than such with a length.
func (l *listReader) field() (number uint64, length int64, err error) {
	tag, err := binary.ReadUvarint(l)
	if err != nil {
		return 0, 0, unexpected(err)
	}
	if tag&7 != 2 || tag>>3 == 0 || tag>>3 > mostFields {
		return 0, 0, fmt.Errorf("%w: tag %d", ErrUnusual, tag)
	}
	n, err := binary.ReadUvarint(l)
	if err != nil {
		return 0, 0, unexpected(err)
	}
	if n > uint64(max(0, l.left)) {
		return 0, 0, io.ErrUnexpectedEOF
	}
	return tag >> 3, int64(n), nil
}

// ReadByte implements io.ByteReader.
func (l *listReader) ReadByte() (byte, error) {
	if l.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	l.left--
	return l.in.ReadByte()
}

// bytes reads so many bytes, valid until it is called again. What it allocates, it has received.
func (l *listReader) bytes(n int64) ([]byte, error) {
	if n > mostOfItem {
		return nil, fmt.Errorf("an item of %d bytes, more than %d", n, mostOfItem)
	}
	l.left -= n
	l.item = l.item[:0]
	for n > 0 {
		chunk := int(min(n, 64<<10))
		if cap(l.item)-len(l.item) < chunk {
			l.item = append(make([]byte, 0, 2*cap(l.item)+chunk), l.item...)
		}
		at := len(l.item)
		l.item = l.item[:at+chunk]
		if _, err := io.ReadFull(l.in, l.item[at:]); err != nil {
			return nil, unexpected(err)
		}
		n -= int64(chunk)
	}
	return l.item, nil
}

// skip reads past what nobody wants.
func (l *listReader) skip(n int64) error {
	l.left -= n
	_, err := io.CopyN(io.Discard, l.in, n)
	return unexpected(err)
}

// unexpected turns the end of the data into an error that says that it should not end there.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
