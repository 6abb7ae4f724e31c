// The receiver of a chaos run: a real HTTP server outside Berth that counts the notifications of every deployment. Now
// and then it refuses one, so that retries and kills meet. An id that arrives again is a retry, not a second one.
import { createHmac } from 'node:crypto'
import type { ChannelMade, Notification, Task } from '@berth/shared/api'
import { type Got, HttpReceiver } from '../fixtures/people/receivers.ts'
import { type Fixture, until } from '../fixtures/server/installation.ts'

const REFUSED = 15 // one of so many requests

export interface NoticeVerdict {
  notified: number
  missing: number
  doubled: number
  disordered: number
  /** With a wrong signature. */
  forged: number
}

export class NoticeWatch {
  readonly #fixture: Fixture
  readonly #receiver = new HttpReceiver()
  #channelId = 0
  #secret = ''

  private constructor(fixture: Fixture) {
    this.#fixture = fixture
  }

  static async start(fixture: Fixture): Promise<NoticeWatch> {
    const watch = new NoticeWatch(fixture)
    await watch.#receiver.listen()
    let asked = 0
    watch.#receiver.behave = (_got, answer) => {
      asked += 1
      answer.writeHead(asked % REFUSED === 0 ? 503 : 200).end()
    }
    const me = await fixture.get<{ organizations: { id: number }[] }>('/api/me')
    const path = `/api/organizations/${me.organizations[0]?.id}/channels`
    const channel = await fixture.post<ChannelMade>(path, {
      name: 'oracle',
      kind: 'webhook',
      url: watch.#receiver.url,
      rules: [
        { happenings: ['deployment.failed', 'deployment.recovered', 'deployment.succeeded'] },
      ],
    })
    watch.#channelId = channel.id
    watch.#secret = channel.secret ?? ''
    return watch
  }

  /** What the receiver got, each id once. */
  get arrived(): { id: string; taskId: number; type: string }[] {
    return this.#receiver.distinct.map(({ body, headers }) => ({
      id: String(headers['webhook-id']),
      taskId: Number(body.data.task.id),
      type: String(body.type),
    }))
  }

  /** Waits until nothing is left to send, then compares with what ended. */
  async judge(
    tasks: readonly Task[],
    waitMs: number,
  ): Promise<NoticeVerdict & { details: string[] }> {
    const path = `/api/channels/${this.#channelId}`
    const details: string[] = []
    await until(
      'the outbox to be empty',
      async () => (await this.#fixture.get<{ waiting: number }>(path)).waiting === 0 || undefined,
      waitMs,
    ).catch((error: unknown) => details.push(String(error)))
    const { arrived } = this
    const forged = this.#receiver.got.filter((got) => !isSigned(got, this.#secret)).length
    const ended = tasks.filter(({ status }) => status === 'succeeded' || status === 'failed')
    const count = (taskId: number) => arrived.filter((one) => one.taskId === taskId).length
    const missing = ended.filter(({ id }) => count(id) === 0).map(({ id }) => id)
    const doubled = ended.filter(({ id }) => count(id) > 1).map(({ id }) => id)
    const ledger = (await this.#ledger()).toSorted((a, b) => a.id - b.id)
    const known = ledger.map(({ message_id }) => message_id)
    const places = arrived.map(({ id }) => known.indexOf(id)).filter((place) => place >= 0)
    const disordered = places.filter((place, i) => i > 0 && place < (places[i - 1] ?? 0)).length
    details.push(
      ...missing.map((id) => `nothing was heard of task ${id}`),
      ...doubled.map((id) => `task ${id} was told under several ids`),
      ...(forged > 0 ? [`${forged} notifications have a wrong signature`] : []),
      ...(disordered > 0 ? [`${disordered} notifications overtook others`] : []),
    )
    return {
      notified: arrived.length,
      missing: missing.length,
      doubled: doubled.length,
      disordered,
      forged,
      details,
    }
  }

  async #ledger(): Promise<Notification[]> {
    const all: Notification[] = []
    let path: string | undefined = `/api/channels/${this.#channelId}/notifications?per_page=100`
    while (path) {
      const answer = await this.#fixture.call('GET', path)
      all.push(...((await answer.json()) as Notification[]))
      const next = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1]
      path = next?.slice(next.indexOf('/api/'))
    }
    return all
  }

  close(): Promise<void> {
    return this.#receiver.close()
  }
}

function isSigned({ headers, raw }: Got, secret: string): boolean {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${raw}`
  const signature = createHmac('sha256', key).update(signed).digest('base64')
  return String(headers['webhook-signature']).split(' ').includes(`v1,${signature}`)
}
