// What the services say. The server keeps it; the client reads more of it than a page can hold.
import { CopyField } from '../components/copy.tsx'
import { EnvironmentFrame } from '../components/environment-frame.tsx'
import { Section } from '../components/page.tsx'

export function EnvironmentLogs() {
  return (
    <EnvironmentFrame tab="Logs">
      {(e) => (
        <Section title="More than a page holds">
          <CopyField label="command" text={`berth logs -e ${e.identifier} -f --since 26h`} />
        </Section>
      )}
    </EnvironmentFrame>
  )
}
