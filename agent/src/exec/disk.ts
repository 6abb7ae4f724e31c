// Room on the disk, measured now.
import { statfsSync } from 'node:fs'
import { PROCESSES, STEPS } from '@berth/shared'

export interface DiskRoom {
  freeBytes: number
  reserveBytes: number
  freeInodes: number
}

export function measureDisk(folder: string): DiskRoom {
  const facts = statfsSync(folder)
  const size = facts.blocks * facts.bsize
  const part = Math.round(size * STEPS.reservePart)
  return {
    freeBytes: facts.bavail * facts.bsize,
    reserveBytes: Math.min(STEPS.reserveBytesMax, Math.max(STEPS.reserveBytesMin, part)),
    // file systems that make inodes as they go (btrfs, some overlays) say 0 of 0
    freeInodes: facts.files === 0 ? PROCESSES.inodes : facts.ffree,
  }
}
