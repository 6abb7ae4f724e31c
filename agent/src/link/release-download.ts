// The bytes of an offered release, on the bulk connection. Ends with the session, or when no byte arrives for a while.
import { FetchReleaseRequestSchema, type ReleaseChunk } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { UPDATES } from '../limits/maintenance.ts'
import type { BulkLine } from './bulk.ts'

interface Wanted {
  updateId: string
  platform: string
  offset: number
}

export async function* fetchRelease(
  bulk: BulkLine,
  { updateId, platform, offset }: Wanted,
): AsyncGenerator<Uint8Array> {
  let cancel = (): void => {}
  const { client, done } = bulk.use(() => cancel())
  const request = create(FetchReleaseRequestSchema, {
    updateId,
    platform,
    offset: BigInt(offset),
  })
  const call = client.fetchRelease(request)
  cancel = () => call.cancel()
  const idle = setTimeout(cancel, UPDATES.idleMs)
  try {
    for await (const chunk of call) {
      const { data, offset: at } = chunk as ReleaseChunk
      if (Number(at) !== offset) throw new Error(`byte ${offset} was expected, got ${at}`)
      offset += data.length
      idle.refresh()
      yield data
    }
  } finally {
    clearTimeout(idle)
    call.cancel()
    done()
  }
}
