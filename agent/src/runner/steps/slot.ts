// Takes one of the server's slots for a build or a pull. While an attempt waits for a build slot, its own time stands
// still, users see its place in line, and it occupies no task slot: the daemon reads the same files.
import { SLOTS } from '../../limits/machine.ts'
import { type SlotKind, takeSlot } from '../../machine/process/slots.ts'
import { readServerSettings } from '../../machine/server-settings.ts'
import type { Attempt } from '../attempt.ts'

export async function awaitSlot(attempt: Attempt, kind: SlotKind): Promise<() => void> {
  const { settings, interruption, output, report } = attempt
  const isBuild = kind === 'build'
  let isWaiting = false
  const goOn = interruption.pause()
  try {
    return await takeSlot(settings, kind, {
      signal: interruption.signal,
      slots: () => (isBuild ? readServerSettings(settings).buildSlots : SLOTS.pulls),
      onPlace: (place) => {
        isWaiting = true
        output.say(`Waiting for a ${kind} slot, place ${place}.`)
        if (isBuild) report.waiting(place)
      },
    })
  } finally {
    goOn()
    if (isWaiting && isBuild) report.waiting(0)
  }
}
