// Names of backups contain their time, so a list needs nothing but the names.

const NAME = /^berth-(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d\.\d{3}Z)\.tar\.gz(\.age)?$/

export function nameBackup(takenAt: number, isLocked: boolean): string {
  const time = new Date(takenAt).toISOString().replaceAll(':', '-')
  return `berth-${time}.tar.gz${isLocked ? '.age' : ''}`
}

/** Undefined: not a name of ours, so retention never touches it. */
export function timeOfName(name: string): number | undefined {
  const found = NAME.exec(name)
  if (!found) return undefined
  const at = Date.parse(`${found[1]}${found[2]}:${found[3]}:${found[4]}`)
  return Number.isNaN(at) ? undefined : at
}
