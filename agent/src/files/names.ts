// The order of file names: by bytes, so that it is the same on every machine and in every language.
export const compareNames = (a: string, b: string): number =>
  Buffer.compare(Buffer.from(a), Buffer.from(b))
