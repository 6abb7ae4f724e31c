// The order of names of files: by bytes, the same on every machine and for every language.
export const compareNames = (a: string, b: string): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b))
