//! The checkpoint of the world in miniature, and the checks of what must hold after every step.

use super::*;

impl Layers {
    fn begin(&mut self) {
        self.cut = std::mem::take(&mut self.next);
    }

    fn complete(&mut self) {
        for (pid, slot) in std::mem::take(&mut self.cut) {
            match slot {
                Some(slot) => self.image.insert(pid, slot),
                None => self.image.remove(&pid),
            };
        }
    }

    fn abort(&mut self) {
        for (pid, slot) in std::mem::take(&mut self.cut) {
            self.next.entry(pid).or_insert(slot);
        }
    }
}

impl World {
    fn budget(&mut self) -> usize {
        self.rng.range(1, 4) as usize
    }

    /// One step of the checkpoint, whatever is next.
    pub fn checkpoint_step(&mut self) -> Step {
        let Some(checkpoint) = &self.checkpoint else {
            // Who pins an image holds what a checkpoint needs.
            return if self.pinning.is_some() {
                Ok(())
            } else {
                self.begin()
            };
        };
        if checkpoint.aborting {
            return self.abort_step();
        }
        match self.map.phase() {
            Phase::Open => self.write_cut(),
            Phase::Sealing => self.seal(),
            Phase::Sealed => self.write_map(),
            Phase::Committing | Phase::Completing => self.complete(),
            phase => Err(format!("a checkpoint in phase {phase:?}")),
        }
    }

    fn begin(&mut self) -> Step {
        let cut = self.epoch;
        self.map.begin_cut(cut).map_err(text)?;
        self.epoch += 1;
        self.layers.begin();
        let truth = self.truth.clone();
        let frames = self.store.frames.borrow();
        let dirty = |f: &Option<Frame>| f.is_some_and(|f| f.dirty && f.epoch <= cut);
        let todo = (0..frames.len()).filter(|f| dirty(&frames[*f])).collect();
        self.checkpoint = Some(Checkpoint {
            todo,
            copies: Vec::new(),
            truth,
            pages: self.bound,
            delta: DeltaCursor::default(),
            fold: FoldCursor::default(),
            fold_base_done: false,
            writer: None,
            aborting: false,
            superblock: None,
        });
        Ok(())
    }

    fn write_cut(&mut self) -> Step {
        let Some(checkpoint) = &mut self.checkpoint else {
            return Ok(());
        };
        let todo: Vec<usize> = checkpoint.todo.iter().copied().collect();
        if let Some((pid, content)) = checkpoint.copies.pop() {
            let Some(slot) = self.slot() else {
                return self.abort();
            };
            let kind = Kind::Copy {
                epoch: self.epoch - 1,
            };
            self.flights.push(Flight {
                pid,
                content,
                slot,
                kind,
            });
            return Ok(());
        }
        if let Some(index) = self.rng.pick(&todo) {
            return if self.start_frame_write(index) {
                Ok(())
            } else {
                self.abort()
            };
        }
        let copies = self
            .flights
            .iter()
            .filter(|f| matches!(f.kind, Kind::Copy { epoch } if epoch + 1 == self.epoch));
        if copies.count() > 0 {
            Ok(())
        } else {
            self.seal()
        }
    }

    fn seal(&mut self) -> Step {
        let budget = self.budget();
        if self.map.seal_step(budget).map_err(text)? {
            self.disk.sync();
        }
        Ok(())
    }

    fn write_map(&mut self) -> Step {
        let budget = self.budget();
        let fold = self.rng.below(4) == 0 || should_fold(&self.last.map);
        let World {
            map,
            disk,
            store,
            checkpoint: Some(checkpoint),
            last,
            ..
        } = self
        else {
            return Ok(());
        };
        let number = last.map.number + 1;
        let Some(writer) = &mut checkpoint.writer else {
            let generation = last.generation + 1;
            if fold {
                disk.delete_map(number);
                let mut sink = |offset, bytes: &[u8]| {
                    disk.write_map(number, offset, bytes);
                    Ok(())
                };
                let writer =
                    MapWriter::create(DATABASE, number, generation, checkpoint.pages, &mut sink);
                checkpoint.writer = Some(writer.map_err(text)?);
            } else {
                checkpoint.writer = Some(MapWriter::append(DATABASE, generation, last.map));
            }
            return Ok(());
        };
        let folding = writer.file().number == number;
        let number = writer.file().number;
        let mut sink = |offset, bytes: &[u8]| {
            disk.write_map(number, offset, bytes);
            Ok(())
        };
        let mut changes = Vec::new();
        let pages = checkpoint.pages;
        let done = if !folding {
            map.cut_delta(store, &mut checkpoint.delta, &mut changes, budget)
        } else if !checkpoint.fold_base_done {
            let mut places = Vec::new();
            let done = map
                .fold_base(store, &mut checkpoint.fold, pages, &mut places, budget)
                .map_err(text)?;
            for place in places {
                writer.push_base(place, &mut sink).map_err(text)?;
            }
            checkpoint.fold_base_done = done;
            Ok(false)
        } else {
            map.fold_overrides(&mut checkpoint.fold, pages, &mut changes, budget)
        };
        let done = done.map_err(text)?;
        for (pid, place) in changes {
            writer.push(pid, place, &mut sink).map_err(text)?;
        }
        if done {
            let file = checkpoint
                .writer
                .take()
                .map(|w| w.finish(&mut sink))
                .ok_or("no writer")?;
            return self.commit(file.map_err(text)?);
        }
        Ok(())
    }

    fn commit(&mut self, file: MapFile) -> Step {
        let Some(checkpoint) = &mut self.checkpoint else {
            return Ok(());
        };
        self.disk.sync();
        let superblock = Superblock {
            version: crate::map::superblock::NEWEST_VERSION,
            generation: self.last.generation + 1,
            epoch: self.epoch - 1,
            pages: checkpoint.pages,
            slots: self.map.counts().total,
            map: file,
            ..self.last.clone()
        };
        self.history
            .insert(superblock.generation, checkpoint.truth.clone());
        checkpoint.superblock = Some(superblock.clone());
        self.map.commit().map_err(text)?;
        let mut block = vec![0; superblock::SUPERBLOCK_BYTES];
        superblock.encode(&mut block);
        self.disk
            .write_superblock((superblock.generation % 2) as usize, block);
        if self.bug == Bug::ReleaseBeforeSync {
            while !self.map.complete_step(&self.store, 1).map_err(text)? {}
            self.layers.complete();
            self.checkpoint = None;
            self.last = superblock;
        }
        Ok(())
    }

    fn complete(&mut self) -> Step {
        let budget = self.budget();
        if self.map.phase() == Phase::Committing {
            self.disk.sync();
            let superblock = self.checkpoint.as_mut().and_then(|c| c.superblock.take());
            let superblock = superblock.ok_or("nothing was committed")?;
            if superblock.map.number != self.last.map.number {
                self.disk.delete_map(self.last.map.number);
            }
            self.last = superblock;
            self.layers.complete();
        }
        if self.map.complete_step(&self.store, budget).map_err(text)? {
            self.checkpoint = None;
            self.checkpoints_done += 1;
            self.check_image()?;
        }
        Ok(())
    }

    pub fn abort(&mut self) -> Step {
        let mut possible = matches!(
            self.map.phase(),
            Phase::Open | Phase::Sealing | Phase::Sealed
        );
        possible |= self.bug == Bug::AbortAfterSuperblock && self.map.phase() == Phase::Committing;
        let Some(checkpoint) = self.checkpoint.as_mut().filter(|c| possible && !c.aborting) else {
            return Ok(());
        };
        checkpoint.aborting = true;
        checkpoint.todo.clear();
        checkpoint.copies.clear();
        checkpoint.writer = None;
        self.layers.abort();
        self.abort_step()
    }

    fn abort_step(&mut self) -> Step {
        let budget = self.budget();
        if self.map.abort_step(&self.store, budget).map_err(text)? {
            self.checkpoint = None;
        }
        Ok(())
    }

    pub fn resize(&mut self) -> Step {
        let end = self.map.shrinkable_to();
        let total = self.map.counts().total;
        if self.rng.below(2) == 0 {
            if end > 0 && self.map.shrink(end - 1) {
                return Err(format!("the map gave up slot {} of {end}", end - 1));
            }
            if !self.map.shrink(end) {
                return Err(format!("the map does not give up slots from {end} on"));
            }
            self.disk.cut_slots(end);
        } else if total < 24 {
            self.map.grow(total + self.rng.range(1, 4));
        }
        Ok(())
    }

    // ---- checks

    /// What is durable, read as after a crash, is the image.
    fn check_image(&self) -> Step {
        let (_, store, _) = self.recover()?;
        let found: BTreeMap<u64, u64> = (0..self.pages)
            .filter_map(|p| Some((p, store.place(PageId(p)).slot()?)))
            .collect();
        if found != self.layers.image {
            return Err(format!(
                "the files say {found:?}, the image is {:?}",
                self.layers.image
            ));
        }
        Ok(())
    }

    /// No slot is used and free, none is lost, and the counts are right.
    pub fn check(&self) -> Step {
        self.map.health().map_err(text)?;
        self.check_pins()?;
        let Layers { image, cut, next } = &self.layers;
        let mut used: BTreeSet<u64> = image.values().copied().collect();
        used.extend(cut.values().chain(next.values()).flatten());
        used.extend(self.flights.iter().map(|f| f.slot));
        let counts = self.map.counts();
        if let Some(slot) = used
            .iter()
            .find(|slot| self.map.slots.is_free(**slot) || **slot >= counts.total)
        {
            return Err(format!("slot {slot} is used and free"));
        }
        let named = counts.in_flight + counts.image + counts.cut + counts.next;
        if counts.total != counts.free + named + counts.kept {
            return Err(format!("the counts do not add up: {counts:?}"));
        }
        let aborting = self.checkpoint.as_ref().is_some_and(|c| c.aborting);
        if aborting
            || !self.leaving.is_empty()
            || !matches!(
                self.map.phase(),
                Phase::Idle | Phase::Sealed | Phase::Committing
            )
        {
            // Some slots are about to be freed.
            return Ok(());
        }
        let kept = self.kept_for_pins();
        if let Some(slot) = kept
            .iter()
            .find(|slot| used.contains(*slot) || !self.map.pins.is_kept(**slot))
        {
            return Err(format!("slot {slot} is used, or is not kept for a pin"));
        }
        used.extend(&kept);
        if let Some(slot) =
            (0..counts.total).find(|s| !used.contains(s) && !self.map.slots.is_free(*s))
        {
            return Err(format!("slot {slot} is lost"));
        }
        let named = |layer: &BTreeMap<u64, Option<u64>>| layer.values().flatten().count() as u64;
        let hidden = |pid: &&u64| cut.contains_key(pid) || next.contains_key(pid);
        let wanted = SlotCounts {
            total: counts.total,
            free: counts.total - used.len() as u64,
            in_flight: self.flights.len() as u64,
            image: image.len() as u64,
            image_only: image.keys().filter(hidden).count() as u64,
            cut: named(cut),
            next: named(next),
            kept: kept.len() as u64,
        };
        if counts != wanted {
            return Err(format!("{counts:?}, wanted {wanted:?}"));
        }
        Ok(())
    }
}
