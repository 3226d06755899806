//! Long random scripts with reopenings, compared with an ordered map after every reading step and
//! at the end; and two runs of one seed do the same to the disk.

use crate::common::expiry::Hands;
use crate::common::{model::Model, run, script, seeds, tiny};
use terrace::Database;
use terrace_sim::SimDisk;

#[test]
fn random_scripts_match_a_model() {
    for seed in seeds(3) {
        let script = script::script(seed, 1500);
        let disk = SimDisk::new(seed);
        let progress = run::run(&disk, &|n| tiny(seed * 1000 + n), &script);
        assert!(progress.error.is_none(), "seed {seed}: {progress:?}");
        let db = Database::open_on(disk.shared(), tiny(seed * 1000 + 999)).unwrap();
        let mut model = Model::default();
        script.iter().for_each(|step| model.apply(step));
        let got = Model::of(&db).unwrap();
        assert!(
            got == model,
            "seed {seed}: {}",
            crate::common::model::differences(&got, &model)
        );
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "seed {seed}: {report}");
    }
}

#[test]
fn two_runs_of_one_seed_do_the_same_to_the_disk() {
    let script = script::script(5, 600);
    let traces = [0, 0].map(|_| {
        let disk = SimDisk::new(5);
        // Checkpoints say what time it is.
        let hands = Hands::new();
        let options = |n| tiny(5000 + n).clock(hands.clone());
        let progress = run::run(&disk, &options, &script);
        assert!(progress.error.is_none(), "{progress:?}");
        (disk.trace(), disk.calls())
    });
    assert_eq!(traces[0], traces[1]);
}
