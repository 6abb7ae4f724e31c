// Which process serves, by a file in the data folder that `serve` writes: an upgrade finds it, counts its starts and
// learns that it became ready. A file counts only while exactly that process lives.
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Running {
  pid: number
  startTicks: string
  version: string
  isReady: boolean
}

const file = (dataDir: string): string => join(dataDir, 'serve.json')

/** Field 22 of /proc/<pid>/stat: with the pid, it names one process of this boot. */
function readStartTicks(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}

export function noteRunning(dataDir: string, version: string, isReady: boolean): void {
  const { pid } = process
  const running: Running = { pid, startTicks: readStartTicks(pid), version, isReady }
  const made = `${file(dataDir)}.${pid}`
  writeFileSync(made, `${JSON.stringify(running)}\n`, { mode: 0o600 })
  renameSync(made, file(dataDir))
}

export const forgetRunning = (dataDir: string): void => rmSync(file(dataDir), { force: true })

/** The last one that served, alive or not. */
export function readRunning(dataDir: string): Running | undefined {
  try {
    return JSON.parse(readFileSync(file(dataDir), 'utf8')) as Running
  } catch {
    return undefined
  }
}

export const isAlive = ({ pid, startTicks }: Pick<Running, 'pid' | 'startTicks'>): boolean =>
  startTicks !== '' && readStartTicks(pid) === startTicks

export const ownProcess = (): Pick<Running, 'pid' | 'startTicks'> => ({
  pid: process.pid,
  startTicks: readStartTicks(process.pid),
})
