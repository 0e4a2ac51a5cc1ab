// The linear CRC of a box, taken by many threads at once; each gives a share, and the XOR of all shares is
// the CRC.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/crc64_body.h"
#include "base/host_device.h"
#include "base/unaligned.h"
#include "tensor/relayout_body.h"

namespace slabload {

// How a dense box is cut up. Its bytes are equal groups, a group is `rows` rows of which only the first may
// be shorter, and a row lies without a gap in the tensor; from a row to the next it is row_step bytes in the
// tensor. `lanes` neighbouring threads take 8 bytes each of a row, and the same of the rows after it: that is
// a line, of line_rows rows (the first line of a group may have fewer). So each line is summed up with one
// factor, x^(8 * row_step), whatever the box. All is counted from the end, where a CRC's zero is.
struct BoxCrc {
  Crc64Factor step;  // x^(8 * row_step)
  Crc64Powers powers;
  std::uint64_t lines;  // 0: nothing to do; numbered by group, block of rows, column
  std::uint64_t bytes;  // of the box
  std::uint64_t group_bytes;
  std::uint64_t rows;
  std::uint64_t row_bytes;
  std::uint64_t first_row_bytes;  // above 0
  std::uint64_t row_step;
  std::uint64_t line_rows;
  std::uint64_t blocks;   // of line_rows rows in a group
  std::uint64_t columns;  // of 8 * lanes bytes in a row
  std::uint64_t tail;     // bytes of the tensor behind the box's last
  std::uint32_t lanes;    // a power of two, 32 at most
  std::uint32_t ndim;     // of the groups
  std::uint64_t extent[Relayout::kMost];
  std::uint64_t group_step[Relayout::kMost];  // bytes of the tensor
};

// The share of one thread of a line. `unit` (1, 2, 4 or 8) divides the address of the data's end and the
// lengths of groups and rows. `table` and `stride` are crc64_multiply_by_table's, for layout.step.
SLABLOAD_HD inline std::uint64_t box_crc_share(const BoxCrc& box, const unsigned char* data,
                                               std::uint32_t unit, const std::uint64_t* table,
                                               std::uint32_t stride, std::uint64_t line, std::uint32_t lane) {
  Quotient column = divide(line, box.columns);
  Quotient block = divide(column.whole, box.blocks);
  std::uint64_t group = block.whole;
  std::uint64_t last_row = block.rest * box.line_rows;
  std::uint64_t end_row = last_row + box.line_rows < box.rows ? last_row + box.line_rows : box.rows;
  std::uint64_t behind = 8 * (column.rest * box.lanes + (box.lanes - 1 - lane));  // in the row
  if (behind >= box.row_bytes) return 0;

  std::uint64_t crc = 0;
  const unsigned char* row_end = data + (box.bytes - group * box.group_bytes - (end_row - 1) * box.row_bytes);
  for (std::uint64_t row = end_row; row-- > last_row; row_end += box.row_bytes) {
    std::uint64_t length = row + 1 == box.rows ? box.first_row_bytes : box.row_bytes;
    crc = crc64_multiply_by_table(table, stride, crc);
    if (behind >= length) continue;
    std::uint32_t size = length - behind < 8 ? static_cast<std::uint32_t>(length - behind) : 8;
    crc ^= load_bits(row_end - behind - size, size, unit) << (64 - 8 * size);
  }

  std::uint64_t zeros = box.tail + last_row * box.row_step + behind;
  for (std::uint32_t d = box.ndim; d-- > 0;) {
    Quotient at = divide(group, box.extent[d]);
    zeros += at.rest * box.group_step[d];
    group = at.whole;
  }
  // A CRC has its message times x^64.
  return crc64_shift(box.powers, crc, zeros + 8);
}

}  // namespace slabload
