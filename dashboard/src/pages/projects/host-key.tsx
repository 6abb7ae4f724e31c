// The SSH host key of a project's forge: the accepted key, the key the forge shows now, and a button to trust a new
// one. The forge is contacted only on request.
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Facts } from '../../components/page.tsx'
import { Note } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'
import type { Project } from '../../data.ts'

type Seen = Awaited<ReturnType<typeof api.project.hostKey.mutate>>

const isSsh = (url: string): boolean => url.startsWith('ssh://') || !/^[a-z]+:\/\//.test(url)

export function HostKey({ project: p }: { project: Project }) {
  const [seen, setSeen] = useState<Seen>()
  const [asked, ask] = useState<string>()
  if (!isSsh(p.repo_url)) return null
  return (
    <>
      <h3>SSH host key</h3>
      {p.repository.error?.code === 'host_key_changed' && (
        <Note kind="bad">{p.repository.error.message}</Note>
      )}
      <p className="muted">
        Berth stores the first host key that the forge shows. It accepts another one only after an
        owner trusts it.
      </p>
      <div className="row">
        <ActButton
          act={async () => setSeen(await change(api.project.hostKey.mutate({ project_id: p.id })))}
        >
          Show host key
        </ActButton>
      </div>
      <div role="status">{seen && <Shown seen={seen} onTrust={ask} />}</div>
      {asked && (
        <Ask
          title="Trust this host key?"
          submit="Trust it"
          onClose={() => ask(undefined)}
          send={async () =>
            setSeen(
              await change(
                api.project.trustHostKey.mutate({ project_id: p.id, fingerprint: asked }),
              ),
            )
          }
          done="Trusted. Every server uses it from the next deployment on."
        >
          <p>Compare it with the fingerprint that the forge publishes before you trust it.</p>
          <Facts
            of={[
              ['Known', <Fingerprints key="k" keys={seen?.known ?? []} />],
              ['New', <code key="n">{asked}</code>],
            ]}
          />
        </Ask>
      )}
    </>
  )
}

function Fingerprints({ keys }: { keys: Seen['known'] }) {
  if (keys.length === 0) return <>none</>
  return (
    <>
      {keys.map((key) => (
        <div key={key.fingerprint}>
          <code>{key.fingerprint}</code> <span className="muted small">{key.type}</span>
        </div>
      ))}
    </>
  )
}

function Shown({ seen, onTrust }: { seen: Seen; onTrust: (fingerprint: string) => void }) {
  const known = new Set(seen.trust === 'trusted' ? seen.known.map((k) => k.fingerprint) : [])
  const untrusted = seen.offered.filter((k) => !known.has(k.fingerprint))
  return (
    <>
      {seen.error && <Note kind="bad">{seen.error.message}</Note>}
      {seen.changed && <Note kind="warn">The forge shows a different host key than before.</Note>}
      <Facts
        of={[
          ['Forge', seen.host ?? 'not read over ssh'],
          ['Known', <Fingerprints key="k" keys={seen.known} />],
          [
            'Why',
            seen.trusted_at ? (
              <span key="w">
                trusted <Time at={seen.trusted_at} />
              </span>
            ) : (
              'seen first'
            ),
          ],
          ['Shows now', <Fingerprints key="o" keys={seen.offered} />],
        ]}
      />
      <div className="row">
        {untrusted.map((key) => (
          <Button key={key.fingerprint} onClick={() => onTrust(key.fingerprint)}>
            Trust {key.type}
          </Button>
        ))}
      </div>
    </>
  )
}
