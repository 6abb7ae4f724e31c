// Where the tests' own files lie: in memory, where the machine lets us, because what is tested syncs each step of its
// way to the disk and a test never reads after a power cut. The Docker engine keeps to the disk. What the first
// process of the run compiled is kept for the thousand others.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Scratch {
  remove(): void
}

/** Far beyond what tests write: a bound on what can be read as free, not on memory that is used. */
const OPTIONS = 'size=64g,nr_inodes=4m,mode=1777'

function mount(folder: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', OPTIONS, 'berth-test', folder], { stdio: 'ignore' })
    return true
  } catch {
    return false // no root, no right to mount: the disk does as well, slower
  }
}

/** From here on `tmpdir()` of this process and of those it starts is the scratch. */
export function openScratch(): Scratch {
  const before = tmpdir()
  const folder = mkdtempSync(join(before, 'bt-'))
  chmodSync(folder, 0o1777)
  const isMounted = mount(folder)
  process.env.TMPDIR = folder
  process.env.NODE_COMPILE_CACHE = join(folder, 'compiled')
  return {
    remove() {
      process.env.TMPDIR = before
      // lazily: a process that a broken test left behind must not keep it
      if (isMounted) execFileSync('umount', ['--lazy', folder], { stdio: 'ignore' })
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
