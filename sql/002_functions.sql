-- SPDX-License-Identifier: Apache-2.0
--
-- What caisson-api calls. One call is one transaction. Each function takes the
-- tenant first and puts row security into its scope; the project is checked
-- in every query. Objects come back as JSON in the public API's shape, so that
-- the API passes the text on.
--
-- Refusals a client can cause are raised with these SQLSTATEs (the message is
-- for the log; words for the client are the API's):
--   CA404 no such thing      CA001 name taken        CA002 idempotency mismatch
--   CA003 wrong state        CA004 template unknown  CA005 no node was given

SET LOCAL ROLE caisson_owner;

CREATE FUNCTION caisson.scope(p_tenant text) RETURNS void
LANGUAGE sql AS $$
	SELECT set_config('caisson.tenant', p_tenant, true)
$$;

-- RFC 3339, UTC, milliseconds.
CREATE FUNCTION caisson.ts(t timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
	SELECT to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- prefix + 20 of [a-z0-9] with at least 100 bits of min-entropy. The fixed
-- bits of a version 4 UUID lie in bytes 6 and 8, which are left out.
CREATE FUNCTION caisson.new_id(p_prefix text) RETURNS text
LANGUAGE sql VOLATILE AS $$
	SELECT p_prefix || string_agg(
		substr('abcdefghijklmnopqrstuvwxyz0123456789',
		       1 + get_byte(u.b, i) % 36, 1), '' ORDER BY i)
	FROM (SELECT decode(replace(gen_random_uuid()::text
		|| gen_random_uuid()::text, '-', ''), 'hex') AS b
		OFFSET 0) u,
	     unnest(ARRAY[0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16,
		17, 18, 19, 20, 21]) AS i
$$;

CREATE FUNCTION caisson.is_final(p_observed text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
	SELECT p_observed IN ('ended', 'failed', 'lost')
$$;

-- The public, transitional name: derived from observed and desired.
CREATE FUNCTION caisson.sandbox_state(s caisson.sandboxes) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN s.observed IN ('ended', 'failed', 'lost') THEN s.observed
		WHEN s.desired = 'deleted' THEN 'ending'
		WHEN s.observed = 'pending' AND s.activity = 'create'
			THEN 'starting'
		ELSE s.observed
	END
$$;

-- Environment values are not shown: people put secrets there.
CREATE FUNCTION caisson.sandbox_json(s caisson.sandboxes) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object(
		'id', s.id, 'name', s.name, 'project', s.project,
		'state', caisson.sandbox_state(s),
		'desired', s.desired, 'observed', s.observed,
		'activity', s.activity, 'generation', s.generation,
		'observed_generation', s.observed_generation,
		'template', s.template, 'release', s.release,
		'labels', s.labels,
		'resources', json_build_object('vcpus', s.vcpus,
			'memory_mib', s.memory_mib, 'disk_mib', s.disk_mib),
		'lifetime', json_build_object('ttl_s', s.ttl_s,
			'on_expiry', s.on_expiry),
		'ends_at', caisson.ts(s.ends_at),
		'isolation', CASE WHEN s.isolation_level IS NOT NULL THEN
			json_build_object('level', s.isolation_level,
				'engine', s.isolation_engine,
				'reason', s.isolation_reason) END,
		'node', s.node,
		'durability', 'none', 'last_snapshot', NULL,
		'at_risk_s', CASE WHEN s.observed = 'running' THEN
			floor(extract(epoch FROM now() - s.started_at)) END,
		'end', CASE WHEN s.end_at IS NOT NULL THEN
			json_build_object('reason', s.end_reason,
				'detail', s.end_detail,
				'at', caisson.ts(s.end_at),
				'last_usage', s.last_usage) END,
		'created_by', s.created_by,
		'created_at', caisson.ts(s.created_at),
		'started_at', caisson.ts(s.started_at),
		'updated_at', caisson.ts(s.updated_at))
$$;

CREATE FUNCTION caisson.operation_json(o caisson.operations) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object(
		'id', o.id, 'kind', o.kind, 'state', o.state,
		'sandbox', o.sandbox, 'template', o.template,
		'generation', o.generation, 'progress', o.progress,
		'error', o.error, 'timings_ms', o.timings,
		'superseded_by', o.superseded_by,
		'created_by', o.created_by,
		'created_at', caisson.ts(o.created_at),
		'started_at', caisson.ts(o.started_at),
		'finished_at', caisson.ts(o.finished_at),
		'deadline', caisson.ts(o.deadline))
$$;

-- ---- authentication ----

-- The key with this public prefix, revoked or not; the caller compares sha256
-- in constant time. Runs as owner: the tenant is not known yet.
CREATE FUNCTION caisson.key_lookup(p_prefix text)
RETURNS TABLE (id text, tenant text, project text, role text, name text,
	sha256 text, revoked boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT k.id, k.tenant, k.project, k.role, k.name,
		encode(k.sha256, 'hex'), k.revoked_at IS NOT NULL
	FROM caisson.api_keys k WHERE k.prefix = p_prefix
$$;

CREATE FUNCTION caisson.key_json(k caisson.api_keys) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('id', k.id, 'name', k.name, 'role', k.role,
		'prefix', k.prefix, 'project', k.project,
		'created_at', caisson.ts(k.created_at),
		'revoked_at', caisson.ts(k.revoked_at))
$$;

-- outcome: created | replay. A replay shows the record; the secret was shown
-- once and is not kept.
CREATE FUNCTION caisson.key_create(p_tenant text, p_project text, p_id text,
	p_name text, p_role text, p_prefix text, p_sha256_hex text,
	p_route text, p_idem text, p_body_hmac_hex text)
RETURNS TABLE (outcome text, key json)
LANGUAGE plpgsql AS $$
DECLARE
	k caisson.api_keys;
	known caisson.idempotency_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	known := caisson.idem_begin(p_tenant, p_project, 'POST', p_route,
		p_idem, p_body_hmac_hex, NULL, p_id);
	IF known.object IS NOT NULL THEN
		SELECT * INTO k FROM caisson.api_keys a
			WHERE a.id = known.object AND a.project = p_project;
		RETURN QUERY SELECT 'replay', caisson.key_json(k);
		RETURN;
	END IF;
	INSERT INTO caisson.api_keys (id, tenant, project, name, role, prefix,
		sha256)
	VALUES (p_id, p_tenant, p_project, p_name, p_role, p_prefix,
		decode(p_sha256_hex, 'hex')) RETURNING * INTO k;
	RETURN QUERY SELECT 'created', caisson.key_json(k);
END $$;

-- Revoke; NULL if there is no such key. Twice is the same as once.
CREATE FUNCTION caisson.key_revoke(p_tenant text, p_project text, p_id text)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	k caisson.api_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	UPDATE caisson.api_keys a
		SET revoked_at = coalesce(a.revoked_at, now())
		WHERE a.id = p_id AND a.project = p_project
		RETURNING * INTO k;
	RETURN CASE WHEN FOUND THEN caisson.key_json(k) END;
END $$;

-- Lists: newest first, rows with seq < p_after (NULL: from the newest). The
-- caller asks for one more than it shows, to know whether there is a next
-- page. Each row: its seq for the cursor, and the object.
CREATE FUNCTION caisson.key_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT k.seq, caisson.key_json(k)
		FROM caisson.api_keys k
		WHERE k.project = p_project
		  AND (p_after IS NULL OR k.seq < p_after)
		ORDER BY k.seq DESC LIMIT p_limit;
END $$;

-- ---- idempotency ----

-- Take the key, or find what it stands for. An all-NULL result means: go on,
-- the key (if any) is ours and commits with the rest of this transaction; a
-- concurrent holder was waited for. Raises CA002 if the body differs.
CREATE FUNCTION caisson.idem_begin(p_tenant text, p_project text,
	p_method text, p_route text, p_key text, p_body_hmac_hex text,
	p_operation text, p_object text)
RETURNS caisson.idempotency_keys
LANGUAGE plpgsql AS $$
DECLARE
	known caisson.idempotency_keys;
	nothing caisson.idempotency_keys;
BEGIN
	IF p_key IS NULL THEN
		RETURN nothing;
	END IF;
	INSERT INTO caisson.idempotency_keys (project, method, route, key,
		tenant, body_hmac, operation, object)
	VALUES (p_project, p_method, p_route, p_key, p_tenant,
		decode(p_body_hmac_hex, 'hex'), p_operation, p_object)
	ON CONFLICT DO NOTHING;
	IF FOUND THEN
		RETURN nothing;
	END IF;
	SELECT * INTO known FROM caisson.idempotency_keys i
		WHERE i.project = p_project AND i.method = p_method
		  AND i.route = p_route AND i.key = p_key;
	IF known.created_at < now() - interval '24 hours' THEN
		UPDATE caisson.idempotency_keys i
			SET body_hmac = decode(p_body_hmac_hex, 'hex'),
			    operation = p_operation, object = p_object,
			    created_at = now()
			WHERE i.project = p_project AND i.method = p_method
			  AND i.route = p_route AND i.key = p_key;
		RETURN nothing;
	END IF;
	IF known.body_hmac <> decode(p_body_hmac_hex, 'hex') THEN
		RAISE EXCEPTION 'idempotency key was used with another body'
			USING ERRCODE = 'CA002';
	END IF;
	RETURN known;
END $$;

-- ---- sandboxes ----

-- By id, or by @name: the living one, else the newest that had the name.
CREATE FUNCTION caisson.sandbox_find(p_project text, p_ref text)
RETURNS caisson.sandboxes
LANGUAGE sql STABLE AS $$
	(SELECT s FROM caisson.sandboxes s
		WHERE left(p_ref, 1) <> '@' AND s.id = p_ref
		  AND s.project = p_project)
	UNION ALL
	(SELECT s FROM caisson.sandboxes s
		WHERE left(p_ref, 1) = '@' AND s.name = substr(p_ref, 2)
		  AND s.project = p_project
		ORDER BY caisson.is_final(s.observed), s.seq DESC LIMIT 1)
	LIMIT 1
$$;

-- The release that a template reference means: `sha256:HEX`, `NAME` (tag
-- latest) or `NAME:TAG`; own project first, then public ones. NULL if none.
CREATE FUNCTION caisson.release_find(p_project text, p_ref text)
RETURNS caisson.template_releases
LANGUAGE sql STABLE AS $$
	SELECT r FROM caisson.template_releases r
	WHERE (r.project = p_project OR r.public) AND CASE
		WHEN p_ref LIKE 'sha256:%' THEN r.digest = p_ref
		ELSE (r.project, r.digest) IN (
			SELECT t.project, t.release FROM caisson.tags t
			WHERE (t.project = p_project OR t.public)
			  AND t.template = split_part(p_ref, ':', 1)
			  AND t.tag = coalesce(nullif(
				split_part(p_ref, ':', 2), ''), 'latest'))
	END
	ORDER BY r.project <> p_project LIMIT 1
$$;

-- Create: sandbox, operation (kind create, running, owned by p_owner until its
-- lease ends) and idempotency key in one synchronous commit. Resources that
-- are NULL come from the release's defaults.
-- outcome: created | replay. manifest is the release's, for the node.
-- Raises CA001, CA002, CA004, CA005 (p_node is NULL: the caller found none, and
-- this is no replay).
CREATE FUNCTION caisson.sandbox_create(p_tenant text, p_project text,
	p_id text, p_op text, p_name text, p_template text, p_labels jsonb,
	p_env jsonb, p_vcpus integer, p_memory_mib integer,
	p_disk_mib integer, p_ttl_s bigint, p_on_expiry text,
	p_isolation text, p_node text, p_owner text, p_lease_s integer,
	p_deadline_s integer, p_by text, p_trace text, p_route text,
	p_idem text, p_body_hmac_hex text)
RETURNS TABLE (outcome text, sandbox json, operation json, generation bigint,
	fence bigint, release text, manifest json, vcpus integer,
	memory_mib integer, disk_mib integer)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	o caisson.operations;
	r caisson.template_releases;
	d jsonb;
	known caisson.idempotency_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	known := caisson.idem_begin(p_tenant, p_project, 'POST', p_route,
		p_idem, p_body_hmac_hex, p_op, p_id);
	IF known.object IS NOT NULL THEN
		SELECT * INTO s FROM caisson.sandboxes x
			WHERE x.id = known.object AND x.project = p_project;
		SELECT * INTO o FROM caisson.operations x
			WHERE x.id = known.operation AND x.project = p_project;
		RETURN QUERY SELECT 'replay', caisson.sandbox_json(s),
			caisson.operation_json(o), s.generation, s.fence,
			s.release, NULL::json, s.vcpus, s.memory_mib,
			s.disk_mib;
		RETURN;
	END IF;
	r := caisson.release_find(p_project, p_template);
	IF r.digest IS NULL THEN
		RAISE EXCEPTION 'template % unknown', p_template
			USING ERRCODE = 'CA004';
	END IF;
	IF p_node IS NULL THEN
		RAISE EXCEPTION 'no node for it' USING ERRCODE = 'CA005';
	END IF;
	d := coalesce(r.manifest -> 'defaults', '{}');
	INSERT INTO caisson.sandboxes (id, tenant, project, name, labels, env,
		template, release, vcpus, memory_mib, disk_mib, ttl_s,
		on_expiry, ends_at, desired, observed, activity, node,
		isolation_demand, last_op_seq, created_by)
	VALUES (p_id, p_tenant, p_project, p_name, p_labels, p_env,
		CASE WHEN p_template LIKE 'sha256:%' THEN r.template
			ELSE split_part(p_template, ':', 1) END,
		r.digest,
		coalesce(p_vcpus, (d ->> 'vcpus')::integer, 1),
		coalesce(p_memory_mib, (d ->> 'memory_mib')::integer, 512),
		coalesce(p_disk_mib, (d ->> 'disk_mib')::integer, 2048),
		p_ttl_s, p_on_expiry, now() + p_ttl_s * interval '1 second',
		'running', 'pending', 'create', p_node, p_isolation, 1, p_by)
	ON CONFLICT (project, name) WHERE name IS NOT NULL
		AND observed NOT IN ('ended', 'failed', 'lost') DO NOTHING
	RETURNING * INTO s;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'name % taken', p_name USING ERRCODE = 'CA001';
	END IF;
	INSERT INTO caisson.operations (id, tenant, project, kind, intent,
		state, sandbox, sandbox_seq, generation, template, node,
		created_by, trace, owner, lease_until, attempts, deadline,
		started_at)
	VALUES (p_op, p_tenant, p_project, 'create', true, 'running', p_id, 1,
		1, s.template, p_node, p_by, p_trace, p_owner,
		now() + p_lease_s * interval '1 second', 1,
		now() + p_deadline_s * interval '1 second', now())
	RETURNING * INTO o;
	RETURN QUERY SELECT 'created', caisson.sandbox_json(s),
		caisson.operation_json(o), s.generation, s.fence, s.release,
		r.manifest::json, s.vcpus, s.memory_mib, s.disk_mib;
END $$;

-- What a request about one sandbox needs to know. No row: not found.
CREATE FUNCTION caisson.sandbox_get(p_tenant text, p_project text, p_ref text)
RETURNS TABLE (sandbox json, id text, observed text, desired text, node text,
	env json, defaults json, end_reason text, end_detail text,
	generation bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	m jsonb;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	IF s.id IS NULL THEN
		RETURN;
	END IF;
	SELECT r.manifest INTO m FROM caisson.template_releases r
		WHERE r.digest = s.release LIMIT 1;
	RETURN QUERY SELECT caisson.sandbox_json(s), s.id, s.observed,
		s.desired, s.node, s.env::json, (m -> 'defaults')::json,
		s.end_reason, s.end_detail, s.generation;
END $$;

-- Filters that are NULL do not filter. p_labels: all must be there and equal.
CREATE FUNCTION caisson.sandbox_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer, p_state text, p_labels jsonb,
	p_template text, p_created_after timestamptz)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT s.seq, caisson.sandbox_json(s)
		FROM caisson.sandboxes s
		WHERE s.project = p_project
		  AND (p_after IS NULL OR s.seq < p_after)
		  AND (p_state IS NULL OR caisson.sandbox_state(s) = p_state)
		  AND (p_labels IS NULL OR s.labels @> p_labels)
		  AND (p_template IS NULL OR s.template = p_template)
		  AND (p_created_after IS NULL
			OR s.created_at > p_created_after)
		ORDER BY s.seq DESC LIMIT p_limit;
END $$;

-- The wish to end, from any state. The row must be held FOR UPDATE by this
-- transaction. Supersedes every active intent of the sandbox. Internal to
-- sandbox_end() and sandbox_expire().
CREATE FUNCTION caisson.end_locked(s caisson.sandboxes, p_op text,
	p_reason text, p_by text, p_trace text, p_owner text,
	p_lease_s integer, p_deadline_s integer)
RETURNS caisson.operations
LANGUAGE plpgsql AS $$
DECLARE
	o caisson.operations;
BEGIN
	UPDATE caisson.operations x
		SET state = 'cancelled', superseded_by = p_op,
		    finished_at = now(), owner = NULL
		WHERE x.sandbox = s.id AND x.intent
		  AND x.state IN ('pending', 'running');
	UPDATE caisson.sandboxes x
		SET desired = 'deleted', generation = x.generation + 1,
		    activity = 'end', last_op_seq = x.last_op_seq + 1,
		    updated_at = now()
		WHERE x.id = s.id RETURNING * INTO s;
	INSERT INTO caisson.operations (id, tenant, project, kind, intent,
		state, sandbox, sandbox_seq, generation, template, node,
		reason, created_by, trace, owner, lease_until, attempts,
		deadline, started_at)
	VALUES (p_op, s.tenant, s.project, 'end', true,
		CASE WHEN p_owner IS NULL THEN 'pending' ELSE 'running' END,
		s.id, s.last_op_seq, s.generation, s.template, s.node,
		p_reason, p_by, p_trace, p_owner,
		now() + p_lease_s * interval '1 second',
		CASE WHEN p_owner IS NULL THEN 0 ELSE 1 END,
		now() + p_deadline_s * interval '1 second',
		CASE WHEN p_owner IS NULL THEN NULL ELSE now() END)
	RETURNING * INTO o;
	RETURN o;
END $$;

-- outcome: accepted (the caller owns the operation and tells the node) |
-- joined (an end is under way) | already (final) | replay. operation is NULL
-- only for a final sandbox that nobody ended. Raises CA404, CA002.
CREATE FUNCTION caisson.sandbox_end(p_tenant text, p_project text, p_ref text,
	p_op text, p_reason text, p_by text, p_trace text, p_owner text,
	p_lease_s integer, p_deadline_s integer, p_route text, p_idem text,
	p_body_hmac_hex text)
RETURNS TABLE (outcome text, sandbox json, operation json, id text,
	generation bigint, fence bigint, node text, op text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s caisson.sandboxes;
	o caisson.operations;
	known caisson.idempotency_keys;
	what text;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no sandbox %', p_ref USING ERRCODE = 'CA404';
	END IF;
	known := caisson.idem_begin(p_tenant, p_project, 'DELETE', p_route,
		p_idem, p_body_hmac_hex, p_op, s.id);
	IF known.object IS NOT NULL THEN
		what := 'replay';
		SELECT * INTO s FROM caisson.sandboxes x
			WHERE x.id = known.object AND x.project = p_project;
		SELECT * INTO o FROM caisson.operations x
			WHERE x.sandbox = known.object AND x.kind = 'end'
			ORDER BY x.seq DESC LIMIT 1;
	ELSIF caisson.is_final(s.observed) OR s.desired = 'deleted' THEN
		what := CASE WHEN caisson.is_final(s.observed) THEN 'already'
			ELSE 'joined' END;
		SELECT * INTO o FROM caisson.operations x
			WHERE x.sandbox = s.id AND x.kind = 'end'
			ORDER BY x.seq DESC LIMIT 1;
	ELSE
		what := 'accepted';
		o := caisson.end_locked(s, p_op, p_reason, p_by, p_trace,
			p_owner, p_lease_s, p_deadline_s);
		SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id;
	END IF;
	RETURN QUERY SELECT what, caisson.sandbox_json(s),
		CASE WHEN o.id IS NOT NULL THEN caisson.operation_json(o) END,
		s.id, s.generation, s.fence, s.node, o.id;
END $$;

-- What the node answered to operation p_op of generation p_generation.
-- p_observed: running | ended | failed. Commits synchronously: a state that a
-- client was told must not be taken back by a crash of the database. Ignored
-- (applied = false) when the sandbox has moved on: another generation, or
-- final already. Used by the API (with its tenant) and by the controller (with
-- p_tenant NULL). Always answers with the rows as they are now.
CREATE FUNCTION caisson.sandbox_observe(p_tenant text, p_op text,
	p_generation bigint, p_observed text, p_level text, p_engine text,
	p_reason text, p_error jsonb, p_timings jsonb)
RETURNS TABLE (applied boolean, sandbox json, operation json)
LANGUAGE plpgsql AS $$
DECLARE
	s caisson.sandboxes;
	o caisson.operations;
	fresh boolean;
BEGIN
	PERFORM caisson.scope(coalesce(p_tenant, ''));
	SELECT * INTO o FROM caisson.operations x WHERE x.id = p_op;
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = o.sandbox
		FOR UPDATE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	fresh := s.generation = p_generation
		AND NOT caisson.is_final(s.observed);
	IF fresh THEN
		UPDATE caisson.operations x
			SET state = CASE WHEN p_observed = 'failed'
				THEN 'failed' ELSE 'succeeded' END,
			    error = p_error, timings = p_timings,
			    finished_at = now(), owner = NULL
			WHERE x.id = p_op AND x.state IN ('pending', 'running');
		UPDATE caisson.sandboxes x
			SET observed = p_observed, activity = NULL,
			    observed_generation = p_generation,
			    isolation_level =
				coalesce(p_level, x.isolation_level),
			    isolation_engine =
				coalesce(p_engine, x.isolation_engine),
			    isolation_reason =
				coalesce(p_reason, x.isolation_reason),
			    started_at = CASE WHEN p_observed = 'running'
				THEN coalesce(x.started_at, now())
				ELSE x.started_at END,
			    end_at = CASE WHEN caisson.is_final(p_observed)
				THEN now() END,
			    end_reason = CASE p_observed
				WHEN 'ended' THEN coalesce(o.reason, 'request')
				WHEN 'failed' THEN 'error' END,
			    end_detail = CASE WHEN p_observed = 'failed'
				THEN p_error ->> 'message' END,
			    updated_at = now()
			WHERE x.id = s.id;
	END IF;
	SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = s.id;
	SELECT * INTO o FROM caisson.operations x WHERE x.id = p_op;
	RETURN QUERY SELECT fresh, caisson.sandbox_json(s),
		caisson.operation_json(o);
END $$;

-- ---- operations ----

-- With the sandbox as it is now, if the operation has one. No row: not found.
CREATE FUNCTION caisson.operation_get(p_tenant text, p_project text, p_op text)
RETURNS TABLE (state text, operation json, sandbox json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT o.state, caisson.operation_json(o),
		CASE WHEN s.id IS NOT NULL THEN caisson.sandbox_json(s) END
		FROM caisson.operations o
		LEFT JOIN caisson.sandboxes s ON s.id = o.sandbox
		WHERE o.id = p_op AND o.project = p_project;
END $$;

CREATE FUNCTION caisson.operation_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer, p_state text, p_sandbox text)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT o.seq, caisson.operation_json(o)
		FROM caisson.operations o
		WHERE o.project = p_project
		  AND (p_after IS NULL OR o.seq < p_after)
		  AND (p_state IS NULL OR o.state = p_state)
		  AND (p_sandbox IS NULL OR o.sandbox = p_sandbox)
		ORDER BY o.seq DESC LIMIT p_limit;
END $$;

-- Of these (a text array literal), those that are finished or gone: for
-- waiters in one sweep. Runs as owner and tells nothing but that.
CREATE FUNCTION caisson.operations_finished(p_ids text[])
RETURNS TABLE (id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT i FROM unnest(p_ids) AS i
	LEFT JOIN caisson.operations o ON o.id = i
	WHERE o.id IS NULL OR o.finished_at IS NOT NULL
$$;

-- The owner is alive: prolong the lease of all that it works on.
CREATE FUNCTION caisson.operations_renew(p_owner text, p_lease_s integer)
RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp
AS $$
	SELECT set_config('synchronous_commit', 'off', true);
	WITH u AS (UPDATE caisson.operations o
		SET lease_until = now() + p_lease_s * interval '1 second'
		WHERE o.owner = p_owner AND o.state = 'running'
		RETURNING 1)
	SELECT count(*)::integer FROM u
$$;

-- The owner cannot say how it ended (a node that does not answer): whoever
-- claims next goes on, not before p_delay_s.
CREATE FUNCTION caisson.operation_release(p_op text, p_owner text,
	p_delay_s integer)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp
AS $$
	SELECT set_config('synchronous_commit', 'off', true);
	UPDATE caisson.operations o
		SET owner = NULL, state = 'pending',
		    lease_until = now() + p_delay_s * interval '1 second'
		WHERE o.id = p_op AND o.owner = p_owner AND o.state = 'running'
$$;

-- ---- templates ----

CREATE FUNCTION caisson.template_json(t caisson.templates) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('name', t.name, 'public', t.public,
		'release', (SELECT g.release FROM caisson.tags g
			WHERE g.project = t.project AND g.template = t.name
			  AND g.tag = 'latest'),
		'tags', (SELECT coalesce(json_object_agg(g.tag, g.release),
				'{}') FROM caisson.tags g
			WHERE g.project = t.project AND g.template = t.name),
		'created_at', caisson.ts(t.created_at))
$$;

CREATE FUNCTION caisson.template_list(p_tenant text, p_project text,
	p_after bigint, p_limit integer)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT t.seq, caisson.template_json(t)
		FROM caisson.templates t
		WHERE (t.project = p_project OR t.public)
		  AND (p_after IS NULL OR t.seq < p_after)
		ORDER BY t.seq DESC LIMIT p_limit;
END $$;

-- NULL if there is none of this name here.
CREATE FUNCTION caisson.template_get(p_tenant text, p_project text,
	p_name text)
RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN (SELECT caisson.template_json(t) FROM caisson.templates t
		WHERE t.name = p_name AND (t.project = p_project OR t.public)
		ORDER BY t.project <> p_project LIMIT 1);
END $$;

CREATE FUNCTION caisson.release_get(p_tenant text, p_project text,
	p_digest text)
RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN (SELECT json_build_object('digest', r.digest,
			'template', r.template, 'public', r.public,
			'manifest', r.manifest, 'created_by', r.created_by,
			'created_at', caisson.ts(r.created_at))
		FROM caisson.template_releases r
		WHERE r.digest = p_digest
		  AND (r.project = p_project OR r.public)
		ORDER BY r.project <> p_project LIMIT 1);
END $$;

-- Register the immutable release (again is the same) and its template, and an
-- operation of kind template_build that waits for the node. The tag moves in
-- build_finish(). outcome: created | replay. Raises CA002.
CREATE FUNCTION caisson.build_start(p_tenant text, p_project text, p_op text,
	p_template text, p_digest text, p_manifest jsonb, p_node text,
	p_public boolean, p_owner text, p_lease_s integer,
	p_deadline_s integer, p_by text, p_trace text, p_route text,
	p_idem text, p_body_hmac_hex text)
RETURNS TABLE (outcome text, operation json, release json)
LANGUAGE plpgsql AS $$
DECLARE
	o caisson.operations;
	known caisson.idempotency_keys;
BEGIN
	PERFORM caisson.scope(p_tenant);
	known := caisson.idem_begin(p_tenant, p_project, 'POST', p_route,
		p_idem, p_body_hmac_hex, p_op, p_digest);
	IF known.operation IS NOT NULL THEN
		SELECT * INTO o FROM caisson.operations x
			WHERE x.id = known.operation AND x.project = p_project;
		RETURN QUERY SELECT 'replay', caisson.operation_json(o),
			caisson.release_get(p_tenant, p_project, p_digest);
		RETURN;
	END IF;
	INSERT INTO caisson.templates (tenant, project, name, public)
		VALUES (p_tenant, p_project, p_template, p_public)
		ON CONFLICT DO NOTHING;
	INSERT INTO caisson.template_releases (tenant, project, digest,
		manifest, template, public, created_by)
		VALUES (p_tenant, p_project, p_digest, p_manifest, p_template,
			p_public, p_by)
		ON CONFLICT DO NOTHING;
	INSERT INTO caisson.operations (id, tenant, project, kind, intent,
		state, template, node, request, progress, created_by, trace,
		owner, lease_until, attempts, deadline, started_at)
	VALUES (p_op, p_tenant, p_project, 'template_build', false, 'running',
		p_template, p_node,
		jsonb_build_object('release', p_digest, 'tag', 'latest'),
		'{"phase":"registered"}', p_by, p_trace, p_owner,
		now() + p_lease_s * interval '1 second', 1,
		now() + p_deadline_s * interval '1 second', now())
	RETURNING * INTO o;
	RETURN QUERY SELECT 'created', caisson.operation_json(o),
		caisson.release_get(p_tenant, p_project, p_digest);
END $$;

-- Progress as the node told it; {phase, done, total, unit}.
CREATE FUNCTION caisson.operation_progress(p_op text, p_progress jsonb)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp
AS $$
	SELECT set_config('synchronous_commit', 'off', true);
	UPDATE caisson.operations o SET progress = p_progress
		WHERE o.id = p_op AND o.state = 'running'
$$;

-- p_error NULL: the node is ready, the tag moves in the same transaction.
-- p_tenant NULL: called by the controller. NULL if no such build is active.
CREATE FUNCTION caisson.build_finish(p_tenant text, p_op text, p_error jsonb)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	o caisson.operations;
BEGIN
	PERFORM caisson.scope(coalesce(p_tenant, ''));
	UPDATE caisson.operations x
		SET state = CASE WHEN p_error IS NULL THEN 'succeeded'
			ELSE 'failed' END,
		    error = p_error, finished_at = now(), owner = NULL,
		    progress = CASE WHEN p_error IS NULL
			THEN '{"phase":"ready"}' ELSE x.progress END
		WHERE x.id = p_op AND x.kind = 'template_build'
		  AND x.state IN ('pending', 'running')
		RETURNING * INTO o;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	IF p_error IS NULL THEN
		PERFORM caisson.tag_set(o.tenant, o.project, o.template,
			o.request ->> 'tag', o.request ->> 'release');
	END IF;
	RETURN caisson.operation_json(o);
END $$;

-- Move a tag, atomically; made if absent. Returns its new generation.
CREATE FUNCTION caisson.tag_set(p_tenant text, p_project text,
	p_template text, p_tag text, p_release text)
RETURNS bigint
LANGUAGE sql AS $$
	INSERT INTO caisson.tags AS g (tenant, project, template, tag, release,
		public)
	SELECT t.tenant, t.project, t.name, p_tag, p_release, t.public
		FROM caisson.templates t
		WHERE t.project = p_project AND t.name = p_template
	ON CONFLICT (project, template, tag) DO UPDATE
		SET release = excluded.release, generation = g.generation + 1,
		    moved_at = now()
	RETURNING g.generation
$$;

-- ---- nodes, cluster, whoami ----

CREATE FUNCTION caisson.node_json(n caisson.nodes) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('name', n.name, 'state', n.state,
		'alive', n.lease_until > now(),
		'version', n.version, 'incarnation', n.incarnation,
		'engine', json_build_object('name', n.engine,
			'isolation', n.isolation, 'reason', n.reason),
		'capacity', json_build_object('slots', n.slots,
			'memory_mib', n.memory_mib, 'vcpus', n.vcpus),
		'used', json_build_object('sandboxes', n.used_sandboxes,
			'slots', n.used_slots,
			'memory_mib', n.used_memory_mib),
		'waiting_vmms', n.waiting_vmms,
		'heartbeat_at', caisson.ts(n.heartbeat_at),
		'created_at', caisson.ts(n.created_at))
$$;

-- Every node with where to reach it (API and controller).
CREATE FUNCTION caisson.node_list()
RETURNS TABLE (name text, rpc text, data text, state text, alive boolean,
	incarnation text, item json)
LANGUAGE sql STABLE AS $$
	SELECT n.name, n.rpc, n.data, n.state, n.lease_until > now(),
		n.incarnation, caisson.node_json(n)
	FROM caisson.nodes n ORDER BY n.name
$$;

-- Once per API process: epoch and the key of idempotency hashes (hex).
CREATE FUNCTION caisson.api_hello()
RETURNS TABLE (epoch bigint, secret text, schema_version integer)
LANGUAGE sql STABLE AS $$
	SELECT c.epoch, encode(c.secret, 'hex'),
		(SELECT max(m.version) FROM caisson.schema_migrations m)
	FROM caisson.cluster c
$$;

CREATE FUNCTION caisson.whoami(p_tenant text, p_project text)
RETURNS TABLE (tenant json, project json)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN QUERY SELECT
		json_build_object('id', t.id, 'name', t.name),
		json_build_object('id', p.id, 'name', p.name)
		FROM caisson.projects p JOIN caisson.tenants t
			ON t.id = p.tenant
		WHERE p.id = p_project;
END $$;

RESET ROLE;
