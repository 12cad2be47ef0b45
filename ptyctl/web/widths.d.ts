// The module that the server makes of its table of widths, see static_files.py.
/** Characters without a column, and those of two columns: the first and the last of each range, ascending. */
export const ZERO: [begin: number, end: number][];
export const WIDE: [begin: number, end: number][];
