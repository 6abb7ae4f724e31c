// Placeholder of the scaffold.
import { Page } from '../components/page.tsx'

export function Projects() {
  return <Page title="Projects">…</Page>
}
